"""The places where two JSON values differ."""

import json
from collections.abc import Iterator
from typing import Any

ABSENT = "absent"  # shown for a value whose key is not there; strings have quotes
_NOTHING = object()


def changes(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """The places with the old and the new value."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from changes(old.get(key, _NOTHING), new.get(key, _NOTHING), f"{where}.{key}" if where else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from changes(one, other, f"{where}[{place}]")
    elif _text(old) != _text(new) and not (_unset(old) and _unset(new)):  # an unused new option changes nothing
        yield where, _short(old), _short(new)


def _unset(value: Any) -> bool:
    return value is None or value is _NOTHING


def _text(value: Any) -> str:
    """The value as JSON, where true differs from 1, and 1 from 1.0."""
    return ABSENT if value is _NOTHING else json.dumps(value, sort_keys=True)


def _short(value: Any, width: int = 60) -> str:
    text = _text(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."
