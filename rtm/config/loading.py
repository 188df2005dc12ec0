"""Read `params/`, apply a scale, check the values, and follow all names."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from rtm.config.classes import OWN, is_own
from rtm.config.experiments import Entry
from rtm.config.parameters import Config, Experiment, Params, pick
from rtm.config.reading import Raw, mapping, read_sections, short
from rtm.config.resolving import check, resolve
from rtm.config.variants import Variant
from rtm.core.errors import UserError

PARAMS = Path("params")
TRIALS = "try"  # the folder of `rtm try`. Each trial is a scale, try/<name>, with its own file of parameters
VARIANTS = "variants"  # the folder of variants that were named on the command line
# of unions: parts of a place in an error that are not keys of a user
TAGS = ("mlp", "rtm", OWN, "(blocks)", "value", "mapping", "[key]")


def trials(folder: Path | str = PARAMS) -> list[str]:
    """The scales of `rtm try`."""
    files = (Path(folder).parent / TRIALS).glob("*/params.yaml")
    names = [file.parent.name for file in files]
    names = [name for name in names if re.fullmatch(r"[a-z][a-z0-9_]*", name)]
    return sorted(f"{TRIALS}/{name}" for name in names)


def load(scale: str = "paper", folder: Path | str = PARAMS, variant: Variant | None = None) -> Config:
    """The configuration of a scale, or of a variant of one of its experiments."""
    raw, files = sections(scale, Path(folder))
    raw = overridden(raw, scale, files["scales"])
    if variant:
        load(scale, folder).experiment(variant.experiment)  # report errors that do not come from the changes
        raw = variant.applied(raw, raw["scales"][scale].get("experiments", ""))
    text = json.dumps(raw)  # strict types accept a list for a tuple only in JSON
    names = (variant.experiment, variant.name) if variant else None
    return _resolved(scale, text, tuple(files.items()), names)


def sections(scale: str, folder: Path) -> tuple[Raw, dict[str, Path]]:
    """The sections of `params/` or, for a trial, of its own file; and the file of each."""
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; run from the root of the repository.")
    if scale in trials(folder):
        return _trial(scale, folder.parent / scale / "params.yaml")
    raw, files = read_sections(sorted(folder.glob("*.yaml")))
    if "scales" not in raw:
        file = folder / "scales.yaml"
        raise UserError(f"{file} is missing or empty; bring it back with `git checkout -- {file}`.")
    scales = mapping(raw["scales"], f"{files['scales']}: scales")
    pick({**scales, **dict.fromkeys(trials(folder))}, scale, "scale")
    return raw, files


def _trial(scale: str, path: Path) -> tuple[Raw, dict[str, Path]]:
    """The sections of a trial. Its scale has a folder of its own, and all its tables and figures."""
    raw, files = read_sections([path])
    place: Raw = {"root": scale, "shared": scale, "networks": "", "experiments": "experiments"}
    for kind in ("tables", "figures"):
        section = raw.get(kind)
        place[kind] = list(section) if isinstance(section, dict) else []
    empty: Raw = {section: {} for section in Params.model_fields}
    return {**empty, **raw, "scales": {scale: place}}, {**dict.fromkeys(empty, path), **files}


@lru_cache(16)  # some commands load several scales many times
def _resolved(
    scale: str,
    text: str,
    places: tuple[tuple[str, Path], ...],
    variant: tuple[str, str] | None,
) -> Config:
    files = dict(places)
    params = validated(text, files)
    settings = params.scales[scale]
    section = settings.experiments
    experiments = _experiments(params, params.entries(section), f"{files[section]}: {section}")
    if variant:
        return _of_variant(scale, params, experiments[variant[0]], variant[1])
    planned = _experiments(params, params.planned, f"{files.get('planned', PARAMS)}: planned")
    trained = {*params.experiments, *params.demo, *params.desk}
    twice = sorted(planned.keys() & trained)
    if twice:
        raise UserError(f"{files['planned']}: {', '.join(twice)} is an experiment; choose another name.")
    check(params, settings, experiments, files)
    return Config(scale, settings, params, experiments, planned)


def _experiments(params: Params, entries: Mapping[str, Entry], place: str) -> dict[str, Experiment]:
    experiments = {}
    for name, entry in entries.items():
        experiments[name] = resolve(params, name, entry, f"{place}.{name}")
    return experiments


def _of_variant(scale: str, params: Params, experiment: Experiment, name: str) -> Config:
    """A configuration with this variant only. Its results have their own folder; tables and DVC do not use them."""
    folder = {"root": f"{VARIANTS}/{scale}", "tables": (), "figures": ()}
    settings = params.scales[scale].model_copy(update=folder)
    return Config(scale, settings, params, {name: replace(experiment, name=name)}, {})


# the changes that a scale makes to the other sections


def overrides_of(raw: Raw, scale: str, file: Path) -> dict[str, Raw]:
    """The overrides of a scale: for each section, patterns of names with their changes."""
    place = f"{file}: scales.{scale}"
    entry = mapping(raw["scales"][scale], place)
    overrides = mapping(entry.get("overrides", {}), f"{place}.overrides")
    for section, patterns in overrides.items():
        if section not in raw:
            known = ", ".join(map(str, raw))
            raise UserError(f"{place}.overrides: there is no section {section!r}; choose one of {known}.")
        mapping(patterns, f"{place}.overrides.{section}")
    return overrides


def overridden(raw: Raw, scale: str, file: Path) -> Raw:
    """All sections, with the overrides of the scale applied."""
    changed = dict(raw)
    for section, patterns in overrides_of(raw, scale, file).items():
        if isinstance(raw[section], dict):  # the validation reports it later
            place = f"{file}: scales.{scale}.overrides.{section}"
            changed[section] = _overridden(raw[section], patterns, place)
    return changed


def _overridden(section: Raw, patterns: Raw, place: str) -> Raw:
    changed = dict(section)
    for pattern, change in patterns.items():
        names = [name for name in changed if fnmatchcase(str(name), str(pattern))]
        if not names:
            choices = ", ".join(map(str, changed))
            raise UserError(f"{place}.{pattern}: no name matches; choose from {choices}.")
        for name in names:
            if applies(pattern, name, changed[name], change):
                changed[name] = _merged(changed[name], change)
    return changed


def applies(pattern: str, name: str, entry: Any, change: Any) -> bool:
    """Whether an override changes an entry. A pattern like "*" skips classes from outside of rtm/, because their
    options are unknown."""
    if not fnmatchcase(str(name), str(pattern)):
        return False
    own = isinstance(entry, dict) and is_own(entry.get("kind"))
    return pattern == name or not own or (isinstance(change, dict) and "kind" in change)


def _merged(old: Any, new: Any) -> Any:
    """Merge mappings whose keys are names; replace any other value."""
    if not (isinstance(old, dict) and is_group(new)):
        return new
    changed = {key: _merged(old.get(key), value) for key, value in new.items()}
    return old | changed


def is_group(value: Any) -> bool:
    """Whether a value is a mapping whose keys are names, so that an override changes only some of them."""
    return isinstance(value, dict) and bool(value) and all(isinstance(key, str) for key in value)


# every mistake is a line with its file, its key, and the values that are allowed


def validated(text: str, files: Mapping[str, Path]) -> Params:
    """The parameters from a JSON text."""
    try:
        return Params.model_validate_json(text)
    except ValidationError as error:
        lines = [_message(problem, files) for problem in error.errors()]
        raise UserError("\n".join(lines)) from None


def _message(problem: ErrorDetails, files: Mapping[str, Path]) -> str:
    place = [str(part) for part in problem["loc"] if part not in TAGS]
    file = files.get(place[0], Path("params")) if place else Path("params")
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "extra_forbidden":
        message = f"unknown key {place[-1]!r}{_allowed(place)}"
    elif problem["type"] not in ("missing", "value_error"):
        message = f"{message} (got {short(problem['input'])})"
    return f"{file}: {'.'.join(place)}: {message}"


def _allowed(place: list[str]) -> str:
    """The keys that are allowed beside this one, according to the schema."""
    document = Params.model_json_schema()
    nodes = [document]
    for key in place[:-1]:
        nodes = [child for node in nodes for child in _children(document, node, key)]
    names = sorted({name for node in nodes for name in node.get("properties", {})})
    return f"; choose one of {', '.join(names)}" if names else ""


def _children(document: Raw, node: Raw, key: str) -> Iterator[Raw]:
    """The schemas of the value under a key."""
    named = node.get("properties", {}).get(key)
    entries = list(node.get("patternProperties", {}).values())
    others = [node.get("additionalProperties"), node.get("items")]
    schemas = [schema for schema in (*entries, named, *others) if isinstance(schema, dict)]
    child = schemas[0] if schemas else {}
    for option in child.get("anyOf") or child.get("oneOf") or [child]:
        reference = option.get("$ref", "").rsplit("/", 1)[-1]
        yield document["$defs"][reference] if reference else option


def schema() -> Raw:
    """JSON schema of the files in `params/`, for editors; kept in params/schema.json."""
    document = Params.model_json_schema()
    del document["required"]  # each file has some of the sections
    return document
