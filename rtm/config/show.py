"""Every value of an experiment, and where it comes from, for `rtm show`."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtm.config.base import Strict
from rtm.config.loading import PARAMS, applies, is_group, overrides_of, sections
from rtm.config.parameters import Config
from rtm.config.reading import Raw
from rtm.config.variants import JOINT, Variant

DEFAULT = "default"
Row = tuple[str, str, str]  # key, value, origin
Keys = tuple[str, ...]


def resolved(config: Config, name: str, folder: Path = PARAMS) -> list[Row]:
    """The key, the value and the origin of each value of an experiment. An origin is the file and the entry, or
    "default"."""
    experiment = config.experiment(name)
    origins = _Origins.read(config.scale_name, folder, name)
    entry_name = name.split(JOINT)[0]
    entry = config.params.entries(config.scale.experiments)[entry_name]
    entries: list[tuple[str, str, str, Strict]] = [  # prefix of its keys, section, name, values
        ("", config.scale.experiments, entry_name, entry),
        ("", "recipes", entry.recipe, experiment.recipe),
        ("mapper", "mappers", entry.mapper, experiment.mapper),
        ("dataset", "datasets", experiment.dataset_name, experiment.dataset),
    ]
    if experiment.decoder and experiment.recipe.decoder:
        entries.append(("decoder", "decoders", experiment.recipe.decoder, experiment.decoder))
    for protocol, options in config.protocols(experiment).items():
        entries.append((f"protocols.{protocol}", "protocols", protocol, options))
    rows: dict[str, Row] = {}
    for prefix, section, entry_name, model in entries:
        for keys, value in _leaves(model.model_dump(mode="json")):
            place = ".".join((prefix, *keys)).removeprefix(".")
            if place == "dataset" and (value is None or place in rows):  # the entry or its recipe names it
                continue
            text = value if isinstance(value, str) else json.dumps(value)
            rows[place] = (place, text, origins.of(place, section, entry_name, keys))
    return list(rows.values())


def _leaves(value: Any, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """The values of nested mappings, with their keys."""
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from _leaves(below, (*keys, str(key)))
    else:
        yield keys, value


@dataclass(frozen=True)
class _Origins:
    """All places that can give a value; the later ones win: an entry, the scale's overrides, the variant's name."""

    raw: Raw
    files: dict[str, Path]
    scale: str
    overrides: dict[str, Raw]
    changes: tuple[str, ...]  # keys in the name of a variant

    @classmethod
    def read(cls, scale: str, folder: Path, name: str) -> "_Origins":
        raw, files = sections(scale, folder)
        changes = Variant.of(name).changes if JOINT in name else ()
        overrides = overrides_of(raw, scale, files["scales"])
        return cls(raw, files, scale, overrides, tuple(key for key, _ in changes))

    def of(self, place: str, section: str, name: str, keys: Keys) -> str:
        if any(place == key or place.startswith(f"{key}.") for key in self.changes):
            return "the name of the variant"
        entry = self.raw[section][name]
        origin = DEFAULT
        if _has(entry, keys):
            origin = f"{self.files[section]} {section}.{name}"
        for pattern, change in self.overrides.get(section, {}).items():
            if applies(pattern, name, entry, change) and _has(change, keys):
                origin = f"{self.files['scales']} scales.{self.scale}.overrides.{section}.{pattern}"
        return origin


def _has(value: Any, keys: Keys) -> bool:
    """Whether a mapping gives a value at these keys. One that is not merged with others gives all values below it."""
    for key in keys:
        if not isinstance(value, dict):
            return True
        named = {str(name): below for name, below in value.items()}  # keys of blocks are numbers
        if key not in named:
            return not is_group(value)
        value = named[key]
    return True
