"""Sealed files: the first line is the sha256 of everything after it, so any changed byte is noticed before parsing."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rtm.core.errors import UserError
from rtm.core.files import atomic, temporary_of

SEAL = 65  # bytes of the first line


@contextmanager
def sealed(path: Path, header: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Write a file: the first line is the sha256 of everything after it, the second line is the header."""
    with atomic(path, "w+b") as file:
        file.write(bytes(SEAL))
        file.write(json.dumps(header).encode() + b"\n")
        yield file
        file.seek(SEAL)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        file.seek(0)
        file.write(f"{sha256}\n".encode())


@contextmanager
def unsealed(path: Path) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """The header of a sealed file, and the file after it. If any byte differs, it is an error before parsing begins."""
    with open(path, "rb") as file:
        first_line = file.read(SEAL)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if first_line != f"{sha256}\n".encode():
            raise UserError(f"{path} is damaged or of another kind: its sha256 is not the one in its first line.")
        file.seek(SEAL)
        header = json.loads(file.readline())
        yield header, file


def keep_as(path: Path, other: Path) -> None:
    """Keep the content of `path` also as `other`, before `path` gets new content."""
    spare = temporary_of(other)
    try:
        os.link(path, spare)
    except OSError:  # no hard links are possible, so `path` is absent for a moment
        os.replace(path, other)
    else:
        os.replace(spare, other)
    finally:
        spare.unlink(missing_ok=True)  # os.replace leaves it if both names are the same file
