"""Read `params/`, apply a scale, resolve every experiment, and refuse impossible values."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from rtm.config.architecture import Architecture
from rtm.config.base import Folder, Name, Strict
from rtm.config.classes import OWN, is_own
from rtm.config.devices import Device
from rtm.config.experiments import (
    AnyDecoder,
    Dataset,
    DecoderConfig,
    Entry,
    Halting,
    Mapper,
    Protocol,
    Recipe,
    Recursive,
)
from rtm.config.reading import Raw, mapping, read_sections, short
from rtm.config.reports import COST_METRICS, Figure, Foreign, Published, Table
from rtm.config.variants import Variant
from rtm.core.errors import UserError, printable
from rtm.core.layout import Layout

PARAMS = Path("params")
TAGS = ("mlp", "rtm", OWN, "(blocks)", "(name)", "number", "share", "[key]")  # of unions: not keys that a user writes
TRIALS = "try"  # the folder of `rtm try`. Each trial is a scale, try/<name>, with its own file of parameters
VARIANTS = "variants"  # the folder of variants that were named on the command line
FEW = 8  # a message lists at most this many names completely
T = TypeVar("T")


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


@dataclass(frozen=True, eq=False)
class Config:
    scale_name: str
    scale: Scale
    params: Params
    experiments: dict[str, Experiment]
    planned: dict[str, Experiment]  # only for `rtm plan`; no job trains them

    @property
    def layout(self) -> Layout:
        networks = self.scale.networks
        return Layout(Path(self.scale.root), Path(self.scale.shared), None if networks is None else Path(networks))

    @property
    def tables(self) -> dict[str, Table]:
        return {name: self.params.tables[name] for name in self.scale.tables}

    @property
    def figures(self) -> dict[str, Figure]:
        return {name: self.params.figures[name] for name in self.scale.figures}

    def fetching(self, name: str) -> str:
        """The command that fetches a dataset or a network for this scale."""
        return f"rtm fetch {name}" + ("" if self.scale_name == "paper" else f" --scale {self.scale_name}")

    def experiment(self, name: str) -> Experiment:
        experiment: Experiment = self.pick("experiments", name)
        return experiment

    def pick(self, kind: Literal["experiments", "tables", "figures"], name: str) -> Any:
        """An entry of this scale by name. If only another scale has it, the error names that scale."""
        options: Mapping[str, Any] = getattr(self, kind)
        scales = self.params.scales if self.scale_name in self.params.scales else {}
        if name not in options and (elsewhere := [each for each in scales if name in self._of(kind, scales[each])]):
            where = " or ".join(f"`--scale {scale}`" for scale in elsewhere)
            raise UserError(f"{name} is not at scale {self.scale_name}; add {where}.")
        return pick(options, name, f"{kind.removesuffix('s')} at scale {self.scale_name}")

    def _of(self, kind: str, scale: Scale) -> Iterable[str]:
        names: Iterable[str] = (
            getattr(self.params, scale.experiments) if kind == "experiments" else getattr(scale, kind)
        )
        return names


def pick(options: Mapping[str, T], name: str, kind: str) -> T:
    """The named option. For an unknown name, the error lists similar names or all names."""
    if name not in options:
        raise UserError(f"There is no {kind} named {printable(repr(name))}{_instead(list(options), name)}")
    return options[name]


def _instead(known: list[str], name: str) -> str:
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if len(known) > FEW and near:
        *others, last = near
        return f". Did you mean {', '.join(others) + ' or ' if others else ''}{last}?"
    return f"; choose one of {', '.join(known)}." if known else "; none is defined."


def trials(folder: Path | str = PARAMS) -> list[str]:
    """The scales of `rtm try`."""
    found = (path.parent.name for path in (Path(folder).parent / TRIALS).glob("*/params.yaml"))
    return sorted(f"{TRIALS}/{name}" for name in found if re.fullmatch(r"[a-z][a-z0-9_]*", name))


def load(scale: str = "paper", folder: Path | str = PARAMS, variant: Variant | None = None) -> Config:
    raw, files = _sections(scale, Path(folder))
    raw = _scaled(raw, scale, files.get("scales", Path(folder) / "scales.yaml"))
    section: str = raw["scales"][scale].get("experiments", "")
    if variant:
        load(scale, folder).experiment(variant.experiment)  # report errors that do not come from the changes
        raw = variant.applied(raw, section)
    # the values go through JSON, because strict types accept a list for a tuple only there
    text, named = json.dumps(raw | {"scales": _named(raw["scales"])}), variant and (variant.experiment, variant.name)
    return _loaded(scale, text, tuple(files.items()), named)


@lru_cache(16)  # some commands load several scales many times; workers of the fork server inherit the cache
def _loaded(scale: str, text: str, places: tuple[tuple[str, Path], ...], variant: tuple[str, str] | None) -> Config:
    files = dict(places)
    params = _validated(text, files)
    chosen = params.scales[_name(scale)]

    def resolved(section: str) -> dict[str, Experiment]:
        entries: dict[str, Entry] = getattr(params, section)
        places = {name: f"{files[section]}: {section}.{name}" for name in entries}
        return {name: _resolved(params, name, entry, places[name]) for name, entry in entries.items()}

    experiments = resolved(chosen.experiments)
    if variant:
        return _of_variant(scale, params, experiments[variant[0]], variant[1])
    planned = resolved("planned")
    if twice := sorted(planned.keys() & {*params.experiments, *params.demo, *params.desk}):
        raise UserError(f"{files['planned']}: {', '.join(twice)} is an experiment; choose another name.")
    _check_subsets(params, f"{files['datasets']}: datasets")
    _check_foreign(params, f"{files['foreign']}: foreign")
    _check_reports(params, chosen, experiments, files)
    return Config(scale, chosen, params, experiments, planned)


def _of_variant(scale: str, params: Params, experiment: Experiment, name: str) -> Config:
    """A configuration with this variant only. Its results have their own folder; tables and DVC do not use them."""
    root = {"root": f"{VARIANTS}/{scale}", "tables": (), "figures": ()}
    chosen = params.scales[_name(scale)].model_copy(update=root)
    return Config(scale, chosen, params, {name: replace(experiment, name=name)}, {})


def schema() -> Raw:
    """JSON schema of `params/`, for editors; kept in params/schema.json."""
    return Params.model_json_schema()


def _sections(scale: str, folder: Path) -> tuple[Raw, dict[str, Path]]:
    """The sections of `params/` or, for a trial, of its own file."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; run from the root of the repository.")
    if scale not in (known := trials(folder)):
        raw, files = read_sections(sorted(folder.glob("*.yaml")))
        if scale not in mapping(raw.get("scales", {}), "scales") and "scales" in raw:
            pick({**raw["scales"], **dict.fromkeys(known)}, scale, "scale")
        return raw, files
    path = folder.parent / scale / "params.yaml"
    raw, files = read_sections([path])
    place = {"root": scale, "shared": scale, "networks": "", "experiments": "experiments"}
    shown = {kind: list(raw[kind]) if isinstance(raw.get(kind), dict) else [] for kind in ("tables", "figures")}
    empty: Raw = {section: {} for section, field in Params.model_fields.items()}
    return {**empty, **raw, "scales": {scale: place | shown}}, {**dict.fromkeys(empty, path), **files}


def _name(scale: str) -> str:
    return scale.replace("/", "_")


def _named(scales: Raw) -> Raw:
    """Replace the slash in the name of a trial's scale, because keys of `params/` have no slash."""
    return {_name(scale): value for scale, value in scales.items()}


def _scaled(raw: Raw, scale: str, file: Path) -> Raw:
    """All sections, with the overrides of the scale applied."""
    if "scales" not in raw:
        raise UserError(f"{file} is missing or empty; bring it back with `git checkout -- {file}`.")
    chosen = pick(mapping(raw["scales"], f"{file}: scales"), scale, "scale")
    place = f"{file}: scales.{scale}"
    overrides = mapping(mapping(chosen, place).get("overrides", {}), f"{place}.overrides")
    changed = dict(raw)
    for key, patterns in overrides.items():
        if key not in raw:
            raise UserError(
                f"{place}.overrides: there is no section {key!r}; choose one of {', '.join(map(str, raw))}."
            )
        changed[key] = _overridden(raw[key], patterns, f"{place}.overrides.{key}")
    return changed


def _overridden(section: Any, overrides: Any, place: str) -> Any:
    """Apply the overrides of a scale to a section; their keys are patterns ("*" is every entry)."""
    if not isinstance(section, dict):  # the validation reports it later
        return section
    changed = dict(section)
    for pattern, change in mapping(overrides, place).items():
        meant = [name for name in changed if fnmatchcase(str(name), str(pattern))]
        if not meant:
            raise UserError(f"{place}.{pattern}: no name matches; choose from {', '.join(map(str, changed))}.")
        changed |= {
            name: _merged(changed[name], change) for name in meant if _applies(pattern, name, changed[name], change)
        }
    return changed


def _applies(pattern: str, name: str, entry: Any, change: Any) -> bool:
    """Whether an override can apply to an entry. A pattern like "*" skips classes from outside of rtm/, because their
    options are unknown."""
    own = isinstance(entry, dict) and is_own(entry.get("kind"))
    return pattern == name or not own or (isinstance(change, dict) and "kind" in change)


def _merged(old: Any, new: Any) -> Any:
    """Merge mappings whose keys are names; replace any other value."""
    named = isinstance(new, dict) and all(isinstance(key, str) for key in new) and new
    if not (named and isinstance(old, dict)):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def _validated(text: str, files: Mapping[str, Path]) -> Params:
    try:
        return Params.model_validate_json(text)
    except ValidationError as error:
        raise UserError(_message(error, files)) from None


def _message(error: ValidationError, files: Mapping[str, Path]) -> str:
    problems = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"] if part not in TAGS]
        file = files.get(place[0], PARAMS) if place else PARAMS
        message = problem["msg"].removeprefix("Value error, ")
        got = "" if problem["type"] in ("missing", "value_error") else f" (got {short(problem['input'])})"
        if problem["type"] == "extra_forbidden":
            message, got = f"unknown key {place[-1]!r}{_allowed(place)}", ""
        problems.append(f"{file}: {'.'.join(place)}: {message}{got}")
    return "\n".join(problems)


def _allowed(place: list[str]) -> str:
    """The keys that are allowed at this place, according to the schema."""
    document = schema()
    nodes = [document]
    for part in place[:-1]:
        nodes = [child for node in nodes for child in _children(document, node, part)]
    names = sorted({name for node in nodes for name in node.get("properties", {})})
    return f"; choose one of {', '.join(names)}" if names else ""


def _children(document: Raw, node: Raw, part: str) -> list[Raw]:
    step = node.get("properties", {}).get(part) or node.get("additionalProperties") or node.get("items") or {}
    if "patternProperties" in node:
        step = next(iter(node["patternProperties"].values()))
    options: list[Raw] = (step.get("anyOf") or step.get("oneOf") or [step]) if isinstance(step, dict) else []
    return [document["$defs"][option["$ref"].rsplit("/", 1)[-1]] if "$ref" in option else option for option in options]


def _resolved(params: Params, name: str, entry: Entry, place: str) -> Experiment:
    def follow(options: Mapping[str, T], key: str | None, field: str) -> T:
        if key is None or key not in options:
            raise UserError(f"{place}.{field}: there is no {key!r}; choose one of {', '.join(options)}.")
        return options[key]

    recipe = follow(params.recipes, entry.recipe, "recipe")
    dataset_name = entry.dataset or recipe.dataset
    dataset = follow(params.datasets, dataset_name, "dataset")
    assert dataset_name is not None
    mapper = follow(params.mappers, entry.mapper, "mapper")
    decoder = follow(params.decoders, recipe.decoder, "decoder") if recipe.decoder else None
    for protocol in recipe.evaluation.protocols:
        follow(params.protocols, protocol, "protocol")
    if recipe.stylegan2 and recipe.stylegan2.select == "best":
        follow(params.protocols, recipe.stylegan2.select_protocol, "select_protocol")
    _check_fit(place, recipe, dataset, mapper, decoder, entry)
    _check_numbers(place, params, recipe, dataset_name)
    return Experiment(name, recipe, dataset_name, dataset, mapper, decoder, entry.seeds, entry.sweep)


def _check_fit(
    place: str, recipe: Recipe, dataset: Dataset, mapper: Mapper, decoder: AnyDecoder | None, entry: Entry
) -> None:
    dim = recipe.dim
    if isinstance(mapper, Recursive):
        if mapper.tokens is None and dim % mapper.width:
            raise UserError(f"{place}.mapper: dim {dim} is not a multiple of width {mapper.width}; change one of them.")
        if mapper.fit and mapper.tokens is not None and mapper.tokens * mapper.width != dim:
            raise UserError(
                f"{place}.mapper: {mapper.tokens} tokens x width {mapper.width} is not dim {dim}; "
                "change one of them, or set fit: false."
            )
    elif entry.sweep:
        raise UserError(f"{place}.sweep: only a recursive mapper can change H at inference; remove the sweep.")
    elif recipe.imle and recipe.imle.fixed_point:
        raise UserError(f"{place}: fixed_point needs a recursive mapper; give this one a recipe without it.")
    if (gan := recipe.stylegan2) and (dataset.resolution < 4 or dataset.resolution & (dataset.resolution - 1)):
        raise UserError(f"{place}: StyleGAN2 needs a power of two from 4 px on, images have {dataset.resolution} px.")
    if gan and gan.channel_base < dataset.resolution:
        raise UserError(f"{place}: channel_base must be at least the resolution of the images, {dataset.resolution}.")
    if isinstance(decoder, DecoderConfig) and decoder.resolution != dataset.resolution:
        raise UserError(
            f"{place}: decoder {recipe.decoder} ends at {decoder.resolution} px, images have {dataset.resolution} px."
        )


def _check_numbers(place: str, params: Params, recipe: Recipe, dataset_name: str) -> None:
    """Check the numbers of images before any are generated."""
    made, watch, count = recipe.evaluation.samples, recipe.training.watch, params.datasets[dataset_name].count
    for name in recipe.evaluation.protocols:
        _check_protocol(place, params, name, dataset_name)
        if made < (required := params.protocols[name].required(dataset_name)):
            raise UserError(f"{place}: evaluation.samples is {made}, protocol {name} asks for {required}; raise it.")
    if watch and not watch.k < watch.samples <= count:
        raise UserError(
            f"{place}: training.watch compares {watch.samples} samples with as many of {count} images at k = {watch.k};"
            " choose k below samples, and samples no more than images."
        )


def _check_protocol(place: str, params: Params, name: str, dataset_name: str) -> None:
    protocol = params.protocols[name]
    if (reference := protocol.compared(dataset_name)) not in params.datasets:
        raise UserError(f"{place}: protocol {name} compares with {reference!r}, which is not a dataset.")
    count = params.datasets[reference].count
    required = protocol.required(dataset_name)
    fewest = min(count, required, protocol.pr_samples or required)
    if protocol.k >= fewest:
        raise UserError(f"{place}: protocol {name} has k = {protocol.k} and compares {fewest} images; lower its k.")
    if protocol.splits > required:
        raise UserError(f"{place}: protocol {name} has {protocol.splits} splits of {required} samples; lower splits.")


def _check_subsets(params: Params, place: str) -> None:
    for name, dataset in params.datasets.items():
        if not dataset.of:
            continue
        whole = params.datasets.get(dataset.of)
        if whole is None or whole.of:
            raise UserError(f"{place}.{name}.of: there is no {dataset.of!r}, or it is a subset; name a whole dataset.")
        known = range(whole.classes)
        if whole.resolution != dataset.resolution or (dataset.label is not None and dataset.label not in known):
            raise UserError(
                f"{place}.{name}: {dataset.of} has {whole.resolution} px and {whole.classes} classes; name its "
                "resolution, and a label below its classes."
            )


def _check_foreign(params: Params, place: str) -> None:
    for name, foreign in params.foreign.items():
        if name in {*params.experiments, *params.demo, *params.desk}:
            raise UserError(f"{place}.{name}: an experiment has this name; choose another.")
        for protocol in foreign.protocols:
            if protocol not in params.protocols or foreign.dataset not in params.datasets:
                raise UserError(f"{place}.{name}: there is no protocol {protocol!r} or no dataset {foreign.dataset!r}.")
            _check_protocol(f"{place}.{name}", params, protocol, foreign.dataset)


def _check_reports(
    params: Params, scale: Scale, experiments: Mapping[str, Experiment], files: Mapping[str, Path]
) -> None:
    """Check that every name in the scale, its tables and its figures exists."""

    def known(options: Mapping[str, T], name: str, place: str, kind: str) -> T:
        if name not in options:
            raise UserError(f"{place}: there is no {kind} {name!r}; choose one of {', '.join(options)}.")
        return options[name]

    for name in scale.tables:
        table = known(params.tables, name, f"{files['scales']}: tables", "table")
        place = f"{files['tables']}: tables.{name}"
        for constant in table.constants():
            known(params.published, constant, place, "published entry")
        for foreign, protocol in table.foreign_parts():
            entry = known(params.foreign, foreign, place, "foreign entry")
            known(dict.fromkeys(entry.protocols), protocol, f"{place}: {foreign}", "protocol")
        for part in table.cells:
            if part.experiment is None:
                continue
            experiment = known(experiments, part.experiment, place, "experiment")
            known(
                dict.fromkeys(experiment.variants), part.variant or "native", f"{place}: {part.experiment}", "variant"
            )
            if part.metric not in COST_METRICS:
                protocols = dict.fromkeys(experiment.recipe.evaluation.protocols)
                known(protocols, str(part.protocol), f"{place}: {part.experiment}", "protocol")
    for name in scale.kept or ():
        known(experiments, name, f"{files['scales']}: kept", "experiment")
    for name in scale.figures:
        figure = known(params.figures, name, f"{files['scales']}: figures", "figure")
        place = f"{files['figures']}: figures.{name}"
        for chosen in figure.experiments:
            known(experiments, chosen, place, "experiment")
        if figure.table is not None:
            known(dict.fromkeys(scale.tables), figure.table, place, "table")
