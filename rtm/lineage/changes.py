"""The places where two JSON values differ."""

import json
from collections.abc import Iterator
from typing import Any

ABSENT = "absent"  # shown for a value whose key is not there; strings have quotes
_NOTHING = object()


def changes(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """The places with the old and the new value."""
    match old, new:
        case dict(), dict():
            for key in sorted({*old, *new}):
                below = f"{where}.{key}" if where else key
                yield from changes(old.get(key, _NOTHING), new.get(key, _NOTHING), below)
        case list(), list() if len(old) == len(new):
            for place, (one, other) in enumerate(zip(old, new, strict=True)):
                yield from changes(one, other, f"{where}[{place}]")
        case _:
            is_unused = _unset(old) and _unset(new)  # a new option
            if _text(old) != _text(new) and not is_unused:
                yield where, _short(old), _short(new)


def _unset(value: Any) -> bool:
    return value is None or value is _NOTHING


def _text(value: Any) -> str:
    """The value as JSON, where true differs from 1, and 1 from 1.0."""
    return ABSENT if value is _NOTHING else json.dumps(value, sort_keys=True)


def _short(value: Any, width: int = 60) -> str:
    text = _text(value)
    if len(text) <= width:
        return text
    return f"{text[: width - 3]}..."
