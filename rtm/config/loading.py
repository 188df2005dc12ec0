"""Read `params/`, apply a scale, resolve every experiment, and refuse impossible values."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import ValidationError
from yaml.constructor import ConstructorError

from rtm.config.base import Folder, Name, Strict
from rtm.config.devices import Device
from rtm.config.experiments import OWN, Dataset, DecoderConfig, Entry, Halting, Mapper, Protocol, Recipe, Recursive
from rtm.config.reports import COST_METRICS, Figure, Foreign, Published, Table
from rtm.core.errors import UserError, printable
from rtm.core.layout import Layout

PARAMS = Path("params")
MOST_NODES = 200_000  # values of a file; all of params/ has some 15,000
DEEPEST = 50  # levels of nesting
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
PLAIN = (str, int, float, list, dict, type(None))
Raw = dict[str, Any]
T = TypeVar("T")


class Scale(Strict):
    """A scale: the folders of its results, its tables and figures, and its changes to the other files."""

    root: Folder  # folder of runs, checkpoints, results, reports; "" is the repository
    shared: Folder  # folder of data, weights and reference features
    experiments: Literal["experiments", "demo"]  # the section that lists its experiments
    tables: tuple[Name, ...]
    figures: tuple[Name, ...]
    overrides: dict[str, Any] = {}


class Params(Strict):
    """The whole of `params/`, one field for each section."""

    scales: dict[Name, Scale]
    datasets: dict[Name, Dataset]
    mappers: dict[Name, Mapper]
    decoders: dict[Name, DecoderConfig]
    recipes: dict[Name, Recipe]
    experiments: dict[Name, Entry]
    demo: dict[Name, Entry]
    planned: dict[Name, Entry] = {}
    protocols: dict[Name, Protocol]
    tables: dict[Name, Table]
    figures: dict[Name, Figure]
    published: dict[Name, Published]
    foreign: dict[Name, Foreign]
    devices: dict[Name, Device] = {}


@dataclass(frozen=True)
class Depth:
    """Steps of a recursive mapper at inference: H, or as many as each sample needs; `shuffled` gives them to others."""

    H: int | None = None  # None without halting: a mapper that has no steps
    halting: Halting | None = None
    shuffled: bool = False

    def options(self) -> dict[str, float]:
        """What a generator is called with."""
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
    decoder: DecoderConfig | None
    seeds: tuple[int, ...]
    sweep: tuple[int | Halting, ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """The ways it is sampled: as trained, and with every depth of the sweep."""
        return tuple(self.depths)

    @property
    def depths(self) -> dict[str, "Depth"]:
        """How deep a recursive mapper goes in each variant."""
        depths = {"native": Depth(self.mapper.H if isinstance(self.mapper, Recursive) else None)}
        for each in self.sweep:
            if isinstance(each, Halting):
                depths |= {each.variant: Depth(halting=each), f"{each.variant}_shuffled": Depth(None, each, True)}
            else:
                depths[f"H{each}"] = Depth(each)
        return depths

    def steps(self) -> int:
        return self.recipe.training.total_steps(self.dataset.count)


@dataclass(frozen=True)
class Config:
    scale_name: str
    scale: Scale
    params: Params
    experiments: dict[str, Experiment]
    planned: dict[str, Experiment]  # known to `rtm plan` only: no job makes them

    @property
    def layout(self) -> Layout:
        return Layout(Path(self.scale.root), Path(self.scale.shared))

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
        return pick(self.experiments, name, f"experiment at scale {self.scale_name}")


def pick(options: Mapping[str, T], name: str, kind: str) -> T:
    """The named option; an unknown name is an error that lists the known ones."""
    if name not in options:
        known = f"choose one of {', '.join(options)}" if options else "none is defined"
        raise UserError(f"There is no {kind} named {name!r}; {known}.")
    return options[name]


def load(scale: str = "paper", folder: Path | str = PARAMS) -> Config:
    raw, files = _read(Path(folder))
    params = _validated(_scaled(raw, scale, files.get("scales", Path(folder) / "scales.yaml")), files)
    chosen = params.scales[scale]

    def resolved(section: str) -> dict[str, Experiment]:
        entries: dict[str, Entry] = getattr(params, section)
        places = {name: f"{files[section]}: {section}.{name}" for name in entries}
        return {name: _resolved(params, name, entry, places[name]) for name, entry in entries.items()}

    experiments, planned = resolved(chosen.experiments), resolved("planned")
    if twice := sorted(planned.keys() & {*params.experiments, *params.demo}):
        raise UserError(f"{files['planned']}: {', '.join(twice)} is an experiment; choose another name.")
    _check_foreign(params, f"{files['foreign']}: foreign")
    _check_reports(params, chosen, experiments, files)
    return Config(scale, chosen, params, experiments, planned)


def schema() -> Raw:
    """JSON schema of `params/`, for editors; kept in params/schema.json."""
    return Params.model_json_schema()


def _read(folder: Path) -> tuple[Raw, dict[str, Path]]:
    raw: Raw = {}
    files: dict[str, Path] = {}
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; run from the root of the repository.")
    for path in sorted(folder.glob("*.yaml")):
        try:
            text = path.read_text("utf-8")
            _refuse_depth(text)
            content = yaml.load(text, Loader=_Loader)
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
        except (yaml.YAMLError, RecursionError) as error:
            told = printable(" ".join(str(error).split()))[:400]
            raise UserError(f"{path} is not valid YAML: {told}.") from None
        for key, section in _mapping({} if content is None else content, str(path)).items():
            if key in files:
                raise UserError(f"{path}: section {key!r} is also in {files[key]}; keep one of them.")
            raw[key], files[key] = section, path
    return raw, files


def _refuse_depth(text: str) -> None:
    """Refuse what is nested so deeply that the C parser would crash."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ConstructorError(None, None, f"it is nested more than {DEEPEST} deep", event.start_mark)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C parser is 8 x as fast
    """Safe YAML of names, texts and numbers, with a limit on aliases and without keys that are written twice."""

    def get_single_data(self) -> Any:
        node = self.get_single_node()
        if node is None:
            return None
        if _whole_size(node, {}) > MOST_NODES:
            raise ConstructorError(
                None, None, f"its aliases stand for more than {MOST_NODES:,} values", node.start_mark
            )
        return self.construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError) as error:  # 2024-99-99, 0x_
            raise ConstructorError(None, None, f"{error}; put a text in quotes", node.start_mark) from None
        if isinstance(value, str) and CONTROL.search(value):
            raise ConstructorError(None, None, "a text holds control characters", node.start_mark)
        if not isinstance(value, PLAIN):
            kind = f"a {type(value).__name__} has no place here; put a text in quotes"
            raise ConstructorError(None, None, kind, node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        written = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, True) for key in written]
        if odd := [str(key) for key in keys if isinstance(key, bool) or not isinstance(key, str | int)]:
            raise ConstructorError(None, None, f"{', '.join(odd)} is no name; put it in quotes", node.start_mark)
        if twice := {str(key) for key in keys if keys.count(key) > 1}:
            raise ConstructorError(None, None, f"{', '.join(sorted(twice))} is written twice", node.start_mark)
        return dict(super().construct_mapping(node, deep))


def _whole_size(node: yaml.Node, known: dict[int, float]) -> float:
    """The number of values that a node stands for, its aliases written out; infinite if it holds itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        below = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        parts = () if isinstance(node, yaml.ScalarNode) else below
        known[id(node)] = 1 + sum(_whole_size(part, known) for part in parts)
    return known[id(node)]


def _mapping(value: Any, place: str) -> Raw:
    if not isinstance(value, dict):
        raise UserError(f"{place}: write names with their values, `name: value` (got {_short(value)}).")
    return value


def _scaled(raw: Raw, scale: str, file: Path) -> Raw:
    """All sections, with the overrides of the scale applied."""
    if "scales" not in raw:
        raise UserError(f"{file} is missing or empty; bring it back with `git checkout -- {file}`.")
    chosen = pick(_mapping(raw["scales"], f"{file}: scales"), scale, "scale")
    place = f"{file}: scales.{scale}"
    overrides = _mapping(_mapping(chosen, place).get("overrides", {}), f"{place}.overrides")
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
    for pattern, change in _mapping(overrides, place).items():
        meant = [name for name in changed if fnmatchcase(str(name), str(pattern))]
        if not meant:
            raise UserError(f"{place}.{pattern}: no name matches; choose from {', '.join(map(str, changed))}.")
        changed |= {name: _merged(changed[name], change) for name in meant}
    return changed


def _merged(old: Any, new: Any) -> Any:
    """Mappings with names for keys merge; anything else is replaced."""
    named = isinstance(new, dict) and all(isinstance(key, str) for key in new) and new
    if not (named and isinstance(old, dict)):
        return new
    return {**old, **{key: _merged(old.get(key), value) for key, value in new.items()}}


def _validated(raw: Raw, files: Mapping[str, Path]) -> Params:
    try:
        # by way of JSON, where strict types still accept a list for a tuple
        return Params.model_validate_json(json.dumps(raw))
    except ValidationError as error:
        raise UserError(_message(error, files)) from None


def _message(error: ValidationError, files: Mapping[str, Path]) -> str:
    problems = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"] if part not in ("mlp", "rtm", OWN, "number", "share", "[key]")]
        file = files.get(place[0], PARAMS) if place else PARAMS
        message = problem["msg"].removeprefix("Value error, ")
        got = "" if problem["type"] in ("missing", "value_error") else f" (got {_short(problem['input'])})"
        if problem["type"] == "extra_forbidden":
            message, got = f"unknown key {place[-1]!r}{_allowed(place)}", ""
        problems.append(f"{file}: {'.'.join(place)}: {message}{got}")
    return "\n".join(problems)


def _short(value: Any, most: int = 120) -> str:
    text = repr(value)
    return printable(text if len(text) <= most else f"{text[:most]}...")


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
    place: str, recipe: Recipe, dataset: Dataset, mapper: Mapper, decoder: DecoderConfig | None, entry: Entry
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
    if decoder is not None and decoder.resolution != dataset.resolution:
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


def _check_foreign(params: Params, place: str) -> None:
    for name, foreign in params.foreign.items():
        if name in params.experiments or name in params.demo:
            raise UserError(f"{place}.{name}: an experiment has this name; choose another.")
        for protocol in foreign.protocols:
            if protocol not in params.protocols or foreign.dataset not in params.datasets:
                raise UserError(f"{place}.{name}: there is no protocol {protocol!r} or no dataset {foreign.dataset!r}.")
            _check_protocol(f"{place}.{name}", params, protocol, foreign.dataset)


def _check_reports(
    params: Params, scale: Scale, experiments: Mapping[str, Experiment], files: Mapping[str, Path]
) -> None:
    """Check that every name in the scale's tables and figures exists."""

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
    for name in scale.figures:
        figure = known(params.figures, name, f"{files['scales']}: figures", "figure")
        place = f"{files['figures']}: figures.{name}"
        for chosen in figure.experiments:
            known(experiments, chosen, place, "experiment")
        if figure.table is not None:
            known(dict.fromkeys(scale.tables), figure.table, place, "table")
