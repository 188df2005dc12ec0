"""Files that are whole or absent: every write goes to a temporary name, is synced and renamed."""

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rtm.errors import UserError


@contextmanager
def atomic(path: Path | str, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary sibling of `path` and put it in place only when the block succeeds."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with _allowed(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = open(temporary, mode)  # noqa: SIM115  (closed below)
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _allowed(path):
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def _allowed(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        raise UserError(f"{path} cannot be written ({error.strerror}); make its folder writable.") from None


@contextmanager
def room(folder: Path, needed: int) -> Iterator[None]:
    """Begin only where the disk has so many bytes left, and tell of one that fills up on the way."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    full = UserError(f"The disk of {folder} is full; free {needed / 1e9:.2g} GB there and run this again.")
    if shutil.disk_usage(there).free < needed:
        raise full
    try:
        yield
    except OSError as error:
        raise full if error.errno in (errno.ENOSPC, errno.EDQUOT) else error from None


def write_text(path: Path | str, text: str) -> None:
    with atomic(path, "w") as file:
        file.write(text)


def write_json(path: Path | str, value: Any) -> None:
    """Readable, stable JSON: a change of one number is a diff of one line."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path | str) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; make it first with `snakemake --cores all -- {path}`.") from None
    except ValueError as error:  # not JSON, or not even text
        raise UserError(f"{path} is not valid JSON ({error}); delete it and make it again.") from None


def unprotect(path: Path) -> None:
    """Give a write-protected file bytes of its own: a hard link into DVC's cache, which Snakemake would not replace."""
    if path.is_file() and not path.is_symlink() and not os.access(path, os.W_OK):
        before = path.stat()
        with open(path, "rb") as linked, atomic(path) as own:
            shutil.copyfileobj(linked, own)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def digest(path: Path | str, algorithm: str = "sha256") -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def digest_of_all(path: Path) -> str:
    """sha256 of a file; of a folder that of its files' digests and names, in order."""
    if path.is_file():
        return digest(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listed = "".join(f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()
