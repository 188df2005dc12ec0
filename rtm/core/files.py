"""Files that are whole or absent: every write goes to a temporary name, is synced and renamed."""

import errno
import hashlib
import json
import os
import platform
import shutil
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any
from zipfile import BadZipFile

from safetensors import SafetensorError, safe_open

from rtm.core.errors import UserError

# exceptions that readers raise for a truncated file, or for one of another kind
UNREADABLE = (
    *(OSError, EOFError, ValueError, TypeError, KeyError, RuntimeError, SyntaxError),
    *(BadZipFile, zlib.error, SafetensorError, TokenError),  # the last: the header of an .npy
)
LEFT_BEHIND = 24 * 3600.0  # seconds; the process behind an older temporary folder was killed


def temporary_of(path: Path) -> Path:
    """A file name beside `path` that no other process uses, on this machine or on another that shares the folder."""
    return path.with_name(f".{path.name}.{platform.node()}.{uuid.uuid4().hex[:12]}.tmp")


@contextmanager
def atomic(path: Path | str, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; it replaces `path` only when the block succeeds."""
    path = Path(path)
    temporary = temporary_of(path)
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


def keep_as(path: Path, other: Path) -> None:
    """Give the content of `path` the name `other` too, before `path` gets new content."""
    spare = temporary_of(other)
    try:
        os.link(path, spare)
    except OSError:  # no hard links here: `path` is absent for a moment
        os.replace(path, other)
    else:
        os.replace(spare, other)
    finally:
        spare.unlink(missing_ok=True)  # os.replace leaves it if both names are the same file


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`; it replaces `path` only when the block succeeds."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > LEFT_BEHIND:
                shutil.rmtree(left, ignore_errors=True)
    temporary = temporary_of(path)
    temporary.mkdir()
    try:
        yield temporary
        _replace_folder(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _replace_folder(new: Path, path: Path) -> None:
    """Files of the old and the new folder never mix. If two processes replace it at once, the later one wins."""
    while True:
        old = temporary_of(path)
        with suppress(FileNotFoundError):
            path.rename(old)
        try:
            new.rename(path)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        finally:
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def room(folder: Path, needed: int) -> Iterator[None]:
    """Raise an error if the disk has fewer bytes left than `needed`, or becomes full inside the block."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    wanted = f"{needed / 1e9:.2g} GB" if needed else "some space"
    full = UserError(f"The disk of {folder} is full; free {wanted} there and run this again.")
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
    """Write JSON with sorted keys: a change of one number is a diff of one line."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: Path | str) -> Any:
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; make it first with `{make_command(path)}`.") from None
    except ValueError as error:  # not JSON, or not even text
        raise UserError(f"{path} is not valid JSON ({error}); delete it and make it again.") from None


def make_command(path: Path | str, *options: str, gpus: bool = False) -> str:
    """The command that makes a file: on a cluster if it needs GPUs, otherwise on this machine."""
    return " ".join(["snakemake", "--profile slurm" if gpus else "--cores all", *options, "--", str(path)])


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Replace the exceptions of a damaged file by a message that says what to do (`remedy`)."""
    try:
        yield
    except UNREADABLE:
        raise UserError(f"{path} is damaged or of another kind; {remedy}.") from None


def checkpoint_metadata(checkpoint: Path) -> dict[str, Any]:
    """The description that a weights file carries in its metadata."""
    with safe_open(checkpoint, "numpy") as file:
        described: dict[str, Any] = json.loads(file.metadata()["rtm"])
    return described


def unprotect(path: Path) -> None:
    """Replace a write-protected file (a hard link into DVC's cache) by a copy, which Snakemake can overwrite."""
    if path.is_file() and not path.is_symlink() and not os.access(path, os.W_OK):
        before = path.stat()
        with open(path, "rb") as linked, atomic(path) as own:
            shutil.copyfileobj(linked, own)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def digest(path: Path | str, algorithm: str = "sha256") -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def digest_of_all(path: Path) -> str:
    """sha256 of a file; for a folder, sha256 of the sorted list of its files' digests and names."""
    if path.is_file():
        return digest(path)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    listed = "".join(f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in files)
    return hashlib.sha256(listed.encode()).hexdigest()
