"""The whole of `params/` as one typed object, an experiment with everything that it names, and both at a scale."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from rtm.config.architecture import Architecture
from rtm.config.base import Folder, Name, Strict
from rtm.config.classes import is_own
from rtm.config.devices import Device
from rtm.config.experiments import (
    AnyDecoder,
    DatasetEntry,
    Entry,
    Halting,
    Mapper,
    Protocol,
    Recipe,
    Recursive,
)
from rtm.config.reports import FigureEntry, Published, TableEntry
from rtm.core.errors import UserError, printable

FEW = 8  # a message lists at most this many names completely
Kind = Literal["experiments", "tables", "figures"]
Section = Literal["experiments", "demo", "desk"]
T = TypeVar("T")
ScaleName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*(/[a-z][a-z0-9_]*)?$")]  # of a trial: try/<name>


class Scale(Strict):
    """A scale: the folders of its results, its tables and figures, and its changes to the other files."""

    root: Folder  # folder of runs, checkpoints, results, reports; "" is the repository
    shared: Folder  # folder of data, weights and reference features
    networks: Folder | None = None  # folder of weights, if it is not the shared one
    experiments: Section  # the section that lists its experiments
    tables: tuple[Name, ...]
    figures: tuple[Name, ...]
    in_git: bool = False  # git keeps its results and receipts, not DVC; checkpoints and images always go to DVC
    remote: Name | None = None  # of .dvc/config, for its checkpoints and images; the default one if not given
    kept: tuple[Name, ...] | None = None  # experiments whose checkpoints DVC keeps; all, and galleries, if not given
    overrides: dict[str, Any] = {}


class Params(Strict):
    """The whole of `params/`, one field for each section."""

    scales: dict[ScaleName, Scale]
    datasets: dict[Name, DatasetEntry]
    mappers: dict[Name, Mapper]
    decoders: dict[Name, AnyDecoder]
    recipes: dict[Name, Recipe]
    experiments: dict[Name, Entry]
    demo: dict[Name, Entry]
    desk: dict[Name, Entry] = {}
    planned: dict[Name, Entry] = {}
    protocols: dict[Name, Protocol]
    tables: dict[Name, TableEntry]
    figures: dict[Name, FigureEntry]
    published: dict[Name, Published]
    devices: dict[Name, Device] = {}

    def entries(self, section: Section) -> dict[str, Entry]:
        """The experiments in a section."""
        sections = {"experiments": self.experiments, "demo": self.demo, "desk": self.desk}
        return sections[section]


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
    dataset: DatasetEntry
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
        native = self.mapper.H if isinstance(self.mapper, Recursive) else None
        depths = {"native": Depth(native)}
        for depth in self.sweep:
            if isinstance(depth, Halting):
                depths[depth.variant] = Depth(halting=depth)
                depths[f"{depth.variant}_shuffled"] = Depth(halting=depth, shuffled=True)
            else:
                depths[f"H{depth}"] = Depth(depth)
        return depths

    @property
    def architecture(self) -> Architecture:
        """The architecture of its generator."""
        gan = self.recipe.stylegan2
        dataset = self.dataset
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
        imle = self.recipe.imle
        parts = (self.mapper, self.decoder, self.recipe.method, self.dataset, imle and imle.perceptual)
        kinds = [getattr(part, "kind", None) for part in parts]
        return tuple(kind for kind in kinds if is_own(kind))

    def steps(self) -> int:
        return self.recipe.training.total_steps(self.dataset.count)


@dataclass(frozen=True, eq=False)
class Config:
    scale_name: str
    scale: Scale
    params: Params
    experiments: dict[str, Experiment]
    planned: dict[str, Experiment]  # only for `rtm plan`; no job trains them
    place: Path = Path()  # all folders of the scale lie below it

    @property
    def root(self) -> Path:
        """The folder of runs, checkpoints, results, reports and receipts."""
        return self.place / self.scale.root

    @property
    def shared(self) -> Path:
        """The folder of datasets, downloads and features of references."""
        return self.place / self.scale.shared

    @property
    def networks(self) -> Path:
        """The folder of the weights of frozen networks."""
        if self.scale.networks is None:
            return self.shared
        return self.place / self.scale.networks

    @property
    def kept_features(self) -> Path:
        """The folder of features of any images, found by the content of the images."""
        return self.shared / "features/kept"

    def at(self, folder: Path) -> "Config":
        """The same configuration with all its folders below another one, for tests."""
        return replace(self, place=folder)

    @property
    def tables(self) -> dict[str, TableEntry]:
        return {name: self.params.tables[name] for name in self.scale.tables}

    @property
    def figures(self) -> dict[str, FigureEntry]:
        return {name: self.params.figures[name] for name in self.scale.figures}

    def protocols(self, experiment: Experiment) -> dict[str, Protocol]:
        """The protocols that measure an experiment."""
        return {name: self.params.protocols[name] for name in experiment.recipe.evaluation.protocols}

    def fetching(self, name: str) -> str:
        """The command that fetches a dataset or a network for this scale."""
        return f"rtm fetch {name}{self.option}"

    @property
    def option(self) -> str:
        """The option of a command for this scale."""
        return "" if self.scale_name == "paper" else f" --scale {self.scale_name}"

    def experiment(self, name: str) -> Experiment:
        experiment: Experiment = self.pick("experiments", name)
        return experiment

    def pick(self, kind: Kind, name: str) -> Any:
        """An entry of this scale by name. If only another scale has it, the error names that scale."""
        options: dict[Kind, Mapping[str, Any]] = {
            "experiments": self.experiments,
            "tables": self.tables,
            "figures": self.figures,
        }
        if name not in options[kind]:
            scales = self.params.scales.items()
            choices = [f"`--scale {other}`" for other, scale in scales if name in self._names(kind, scale)]
            if choices:
                raise UserError(f"{name} is not at scale {self.scale_name}; add {' or '.join(choices)}.")
        return pick(options[kind], name, f"{kind.removesuffix('s')} at scale {self.scale_name}")

    def _names(self, kind: Kind, scale: Scale) -> Iterable[str]:
        if kind == "experiments":
            return self.params.entries(scale.experiments)
        return scale.tables if kind == "tables" else scale.figures


def pick(options: Mapping[str, T], name: str, kind: str) -> T:
    """The named option. For an unknown name, the error lists similar names or all names."""
    if name not in options:
        instead = _instead(list(options), name)
        raise UserError(f"There is no {kind} named {printable(repr(name))}{instead}")
    return options[name]


def _instead(known: list[str], name: str) -> str:
    similar = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if len(known) > FEW and similar:
        *others, last = similar
        choice = f"{', '.join(others)} or {last}" if others else last
        return f". Did you mean {choice}?"
    return f"; choose one of {', '.join(known)}." if known else "; none is defined."
