"""The whole of `params/` as one typed object, and an experiment with everything that it names."""

from dataclasses import dataclass
from typing import Any, Literal

from rtm.config.architecture import Architecture
from rtm.config.base import Folder, Name, Strict
from rtm.config.classes import is_own
from rtm.config.devices import Device
from rtm.config.experiments import (
    AnyDecoder,
    Dataset,
    Entry,
    Halting,
    Mapper,
    Protocol,
    Recipe,
    Recursive,
)
from rtm.config.reports import Figure, Foreign, Published, Table


class Scale(Strict):
    """A scale: the folders of its results, its tables and figures, and its changes to the other files."""

    root: Folder  # folder of runs, checkpoints, results, reports; "" is the repository
    shared: Folder  # folder of data, weights and reference features
    networks: Folder | None = None  # folder of weights, if it is not the shared one
    experiments: Literal["experiments", "demo", "desk"]  # the section that lists its experiments
    tables: tuple[Name, ...]
    figures: tuple[Name, ...]
    in_git: bool = False  # git keeps its results and receipts, not DVC; checkpoints and images always go to DVC
    remote: Name | None = None  # of .dvc/config, for its checkpoints and images; the default one if not given
    kept: tuple[Name, ...] | None = None  # experiments whose checkpoints DVC keeps; all, and galleries, if not given
    overrides: dict[str, Any] = {}


class Params(Strict):
    """The whole of `params/`, one field for each section."""

    scales: dict[Name, Scale]
    datasets: dict[Name, Dataset]
    mappers: dict[Name, Mapper]
    decoders: dict[Name, AnyDecoder]
    recipes: dict[Name, Recipe]
    experiments: dict[Name, Entry]
    demo: dict[Name, Entry]
    desk: dict[Name, Entry] = {}
    planned: dict[Name, Entry] = {}
    protocols: dict[Name, Protocol]
    tables: dict[Name, Table]
    figures: dict[Name, Figure]
    published: dict[Name, Published]
    foreign: dict[Name, Foreign]
    devices: dict[Name, Device] = {}


@dataclass(frozen=True)
class Depth:
    """The number of steps of a recursive mapper at inference: H, or as many as each sample needs (`halting`).

    With `shuffled`, each sample gets the number of steps of another sample, as a control."""

    H: int | None = None  # if this and `halting` are None, the mapper has no steps
    halting: Halting | None = None
    shuffled: bool = False

    def options(self) -> dict[str, float]:
        """The keyword arguments for the call of a generator."""
        if self.halting:
            return {"tolerance": self.halting.tolerance, "max_H": self.halting.max}
        return {} if self.H is None else {"H": self.H}


@dataclass(frozen=True)
class Experiment:
    """An experiment with all its references resolved."""

    name: str
    recipe: Recipe
    dataset_name: str
    dataset: Dataset
    mapper: Mapper
    decoder: AnyDecoder | None
    seeds: tuple[int, ...]
    sweep: tuple[int | Halting, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """The names of the ways in which it is sampled: as trained, and with every depth of the sweep."""
        return tuple(self.depths)

    @property
    def depths(self) -> dict[str, "Depth"]:
        """The depth of a recursive mapper in each variant."""
        depths = {"native": Depth(self.mapper.H if isinstance(self.mapper, Recursive) else None)}
        for each in self.sweep:
            if isinstance(each, Halting):
                depths |= {each.variant: Depth(halting=each), f"{each.variant}_shuffled": Depth(None, each, True)}
            else:
                depths[f"H{each}"] = Depth(each)
        return depths

    @property
    def architecture(self) -> Architecture:
        """The architecture of its generator."""
        gan, dataset = self.recipe.stylegan2, self.dataset
        return Architecture(
            dim=self.recipe.dim,
            resolution=dataset.resolution,
            classes=dataset.classes if gan and gan.conditional else 0,
            mapper={"kind": self.mapper.kind, **self.mapper.options()},
            decoder=self.decoder.model_dump() if self.decoder else None,
            stylegan2=gan.model_dump(include={"channel_base", "channel_max"}) if gan else None,
            tf32=self.recipe.training.tf32,
        )

    @property
    def outside(self) -> tuple[str, ...]:
        """The names of its classes that are defined outside of rtm/."""
        imle, own = self.recipe.imle, (self.mapper, self.decoder, self.recipe.method, self.dataset)
        kinds = (getattr(part, "kind", None) for part in (*own, imle and imle.perceptual))
        return tuple(kind for kind in kinds if is_own(kind))

    def steps(self) -> int:
        return self.recipe.training.total_steps(self.dataset.count)
