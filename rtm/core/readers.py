"""Read files that may be damaged or of another kind: then the error is one sentence that says what to do."""

import csv
import json
import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from pickle import PickleError
from tokenize import TokenError
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from safetensors import SafetensorError, safe_open

from rtm.core.advice import back, make_command
from rtm.core.errors import UserError, printable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# exceptions that readers raise for a truncated file, or for a file of another kind
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    RuntimeError,
    SyntaxError,
    MemoryError,
    ArithmeticError,
    AssertionError,
    BadZipFile,
    zlib.error,
    struct.error,
    csv.Error,
    PickleError,
    SafetensorError,
    TokenError,  # the header of an .npy
)
LONGEST = 160  # characters of another library's message


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Replace the exceptions of a damaged file by a message that says what to do (`remedy`)."""
    try:
        yield
    except UNREADABLE as error:
        problem = "cannot be read" if isinstance(error, OSError) else "is damaged or of another kind"
        raise UserError(f"{printable(path)} {problem} ({_reason(error)}); {remedy}.") from None


def _reason(error: BaseException) -> str:
    if type(error).__name__ == "ValidationError" and hasattr(error, "errors"):  # from pydantic
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        reason = f"{place}: {first['msg']}" if place else first["msg"]
    else:
        text = " ".join(str(error).split())
        reason = f"{type(error).__name__} {text}".strip()
    return printable(reason)[:LONGEST]


def read_json(path: Path | str, kind: Any = Any, remedy: str = "") -> Any:
    """The value of a JSON file; an error if it is not of this kind (any type that pydantic knows)."""
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} does not exist; make it first with `{make_command(path)}`.")
    adapter = _adapter(kind)
    with reading(path, remedy or back(path)):
        return adapter.validate_json(path.read_bytes(), strict=True)


def matches(value: Any, kind: Any) -> bool:
    with suppress(ValueError):  # pydantic's error
        return _adapter(kind).validate_python(value, strict=True) is not None
    return False


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter  # here, because networks and checkpoints must work without pydantic

    return TypeAdapter(kind)


def read_numbers(path: Path) -> list[dict[str, float]]:
    """The rows of a CSV file of numbers with a column "step"; an empty cell is left out."""
    with reading(path, back(path)), open(path, newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
        assert len(set(head)) == len(head), "a column is there twice"
        rows = []
        for line in lines:
            row = {name: float(cell) for name, cell in zip(head, line, strict=True) if cell}
            assert "step" in row, "no column step"
            assert all(math.isfinite(value) for value in row.values()), "not finite"
            rows.append(row)
    return rows


def checkpoint_metadata(checkpoint: Path) -> dict[str, Any]:
    """The description that a weights file carries in its metadata."""
    with safe_open(checkpoint, "numpy") as file:
        described: dict[str, Any] = json.loads(file.metadata()["rtm"])
    return described
