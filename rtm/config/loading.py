"""Read `params/`, apply a scale, and name the place of every mistake."""

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

from rtm.config.classes import OWN, is_own
from rtm.config.experiments import (
    Entry,
)
from rtm.config.parameters import Experiment, Params, Scale
from rtm.config.reading import Raw, mapping, read_sections, short
from rtm.config.reports import Figure, Table
from rtm.config.resolving import check, resolve
from rtm.config.variants import Variant
from rtm.core.errors import UserError, printable
from rtm.core.layout import Layout

PARAMS = Path("params")
TAGS = ("mlp", "rtm", OWN, "(blocks)", "(name)", "number", "share", "[key]")  # of unions: not keys that a user writes
TRIALS = "try"  # the folder of `rtm try`. Each trial is a scale, try/<name>, with its own file of parameters
VARIANTS = "variants"  # the folder of variants that were named on the command line
FEW = 8  # a message lists at most this many names completely
T = TypeVar("T")


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
        return {name: resolve(params, name, entry, places[name]) for name, entry in entries.items()}

    experiments = resolved(chosen.experiments)
    if variant:
        return _of_variant(scale, params, experiments[variant[0]], variant[1])
    planned = resolved("planned")
    if twice := sorted(planned.keys() & {*params.experiments, *params.demo, *params.desk}):
        raise UserError(f"{files['planned']}: {', '.join(twice)} is an experiment; choose another name.")
    check(params, chosen, experiments, files)
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
