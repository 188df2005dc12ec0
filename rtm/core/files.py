"""Files that are complete or absent: every write goes to a temporary file, which is synced and renamed."""

import csv
import errno
import hashlib
import json
import math
import os
import platform
import shlex
import shutil
import struct
import time
import uuid
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from pickle import PickleError
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any
from zipfile import BadZipFile

from safetensors import SafetensorError, safe_open

from rtm.core.errors import UserError, printable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

# exceptions that readers raise for a truncated file, or for a file of another kind
UNREADABLE = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, RuntimeError, SyntaxError, MemoryError),
    *(ArithmeticError, AssertionError, BadZipFile, zlib.error, struct.error, csv.Error, PickleError, SafetensorError),
    TokenError,  # the header of an .npy
)
SEAL = 65  # bytes of the first line of a sealed file
LEFT_BEHIND = 24 * 3600.0  # seconds; the process of an older temporary folder was killed


def temporary_of(path: Path) -> Path:
    """A file name beside `path` that no other process uses, also not on another machine that shares the folder."""
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


@contextmanager
def sealed(path: Path, header: dict[str, Any]) -> Iterator[IO[bytes]]:
    """Write a file: the first line is the sha256 of everything after it, the second line is the header."""
    with atomic(path, "w+b") as file:
        file.write(bytes(SEAL) + json.dumps(header).encode() + b"\n")
        yield file
        file.seek(SEAL)
        digest = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        file.seek(0)
        file.write(f"{digest}\n".encode())


@contextmanager
def unsealed(path: Path) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """The header of a sealed file, and the file after it. If any byte differs, it is an error before parsing begins."""
    with open(path, "rb") as file:
        written = file.read(SEAL)
        if written != f"{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode():
            raise UserError(f"{path} is damaged or of another kind: its sha256 is not the one in its first line.")
        file.seek(SEAL)
        yield json.loads(file.readline()), file


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
    """Write JSON with sorted keys, so that a change of one number is a diff of one line."""
    write_text(path, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")


def append(path: Path, row: dict[str, float]) -> None:
    """Add a line of JSON. The file is opened each time, so a deleted file is created again."""
    try:
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")
    except FileNotFoundError:
        raise UserError(f"{path.parent} was deleted while it was written to; nothing more is saved in it.") from None


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
        rows = [{name: float(cell) for name, cell in zip(head, line, strict=True) if cell} for line in lines]
        assert len(set(head)) == len(head) and all("step" in row for row in rows), "no column step, or one twice"
        assert all(math.isfinite(value) for row in rows for value in row.values()), "not finite"
    return rows


def back(path: Path | str) -> str:
    """Advice for getting a file back from git or DVC, or for making it again."""
    kept = f"bring it back with `git checkout -- {path}` or `dvc checkout {path}`"
    return f"{kept}, or delete it and make it again with `{make_command(path)}`"


def make_command(path: Path | str, *options: str, gpus: bool = False) -> str:
    """The command that makes a file: on a cluster if it needs GPUs, otherwise on this machine."""
    return " ".join(["snakemake", "--profile slurm" if gpus else "--cores all", *options, "--", shlex.quote(str(path))])


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
        return printable(": ".join([".".join(map(str, first["loc"])), first["msg"]]).removeprefix(": "))[:160]
    return printable(f"{type(error).__name__} {' '.join(str(error).split())}".strip())[:160]


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


def json_digest(value: Any) -> str:
    """sha256 of a JSON value; the order of keys does not matter."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def digest_of_all(path: Path) -> str:
    """sha256 of a file; for a folder, sha256 of the sorted list of its files' digests and names."""
    if path.is_file():
        return digest(path)
    listed = "".join(f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in sorted(files_below(path)))
    return hashlib.sha256(listed.encode()).hexdigest()


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and below it, also through links. Each folder is visited once, so cycles of links end."""
    seen = {folder.resolve()}
    for place, folders, names in os.walk(folder, followlinks=True):
        here = Path(place)
        real = {(here / name).resolve(): name for name in sorted(folders, reverse=True)}  # of equal links, the first
        folders[:] = sorted(name for path, name in real.items() if path not in seen)
        seen |= real.keys()
        yield from (here / name for name in names if (here / name).is_file())
