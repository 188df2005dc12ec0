"""A variant of an experiment, named on the command line: `digits_rtm+mapper.H=4+training.lr=0.001`.

The name lists all changes. So each variant has its own files and receipts, and equal names mean equal variants.
"""

import json
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from rtm.config.experiments import Entry, Recipe
from rtm.config.reading import Raw, parsed
from rtm.core.errors import UserError, printable

JOINT = "+"
LONGEST = 200  # characters of a name, because files have this name
RECIPE = [name for name in Recipe.model_fields if name not in ("dataset", "decoder")]
ENTRY = [name for name in Entry.model_fields if name != "seeds"]


@dataclass(frozen=True)
class Variant:
    experiment: str
    changes: tuple[tuple[str, Any], ...]  # key and value, in the order of the keys

    @classmethod
    def of(cls, name: str, more: Iterable[str] = ()) -> "Variant":
        """The variant with this name. `name` may also be an experiment; `more` has further changes `key=value`."""
        experiment, *words = name.split(JOINT)
        changes = dict([_change(word) for word in (*words, *more)])
        if not changes:
            raise UserError(f"{printable(name)} changes nothing; write {experiment}{JOINT}mapper.H=4, for example.")
        return cls(experiment, tuple(sorted(changes.items())))

    @property
    def name(self) -> str:
        words = [f"{key}={_text(value)}" for key, value in self.changes]
        name = JOINT.join([self.experiment, *words])
        if len(name) > LONGEST or "/" in name or not name.isprintable():
            raise UserError(f"{printable(name)} cannot name a file; write these values into params/ instead.")
        return name

    def applied(self, raw: Raw, section: str) -> Raw:
        """All sections with the changes and with this experiment only: other experiments of the same recipe might not
        allow the new values."""
        changed = deepcopy(raw)
        entry = changed[section][self.experiment]
        changed[section] = {self.experiment: entry}
        recipe = changed["recipes"].get(entry.get("recipe"))
        for key, value in self.changes:
            if key in ENTRY:
                entry[key] = value
                continue
            part, *below = key.split(".")
            if part == "mapper":
                target = changed["mappers"].get(entry.get("mapper"))
            elif part == "decoder":
                target = changed["decoders"].get((recipe or {}).get("decoder"))
            else:
                target = recipe if part in RECIPE else None
                below = [part, *below]
            if not isinstance(target, dict) or not below:
                known = ", ".join(["mapper.*", "decoder.*", *RECIPE, *ENTRY])
                raise UserError(f"{self.experiment} has no {key}; choose one of {known}.")
            _set(target, below, value, key)
        return changed


def _change(word: str) -> tuple[str, Any]:
    key, equals, text = word.partition("=")
    if not (equals and key and text):
        raise UserError(f"{printable(repr(word))} is no change; write key=value, for example mapper.H=4.")
    try:
        return key, parsed(text)
    except ValueError as error:
        raise UserError(f"{printable(word)}: its value is not valid YAML: {error}.") from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _set(target: dict[Any, Any], parts: list[str], value: Any, key: str) -> None:
    """Set the value at the place that the key names. Keys inside `blocks` and `widths` are numbers."""
    keys = [int(part) if part.isdigit() else part for part in parts]
    for part in keys[:-1]:
        target = target.setdefault(part, {})
        if not isinstance(target, dict):
            raise UserError(f"{key}: {part} is a value, not a group of values; write {part}=...")
    target[keys[-1]] = value
