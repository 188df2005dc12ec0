"""Files that are complete or absent: every write goes to a temporary file, which is synced and renamed."""

import errno
import hashlib
import json
import os
import platform
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from rtm.core.errors import UserError

NOTE = "while writing "


def temporary_of(path: Path) -> Path:
    """A file name beside `path` that no other process uses, also not on another machine that shares the folder."""
    unique = uuid.uuid4().hex[:12]
    return path.with_name(f".{path.name}.{platform.node()}.{unique}.tmp")


@contextmanager
def atomic(path: Path | str, mode: str = "wb") -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; it replaces `path` only when the block succeeds."""
    path = Path(path)
    temporary = temporary_of(path)
    with _writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        encoding = None if "b" in mode else "utf-8"
        opened = open(temporary, mode, encoding=encoding)  # noqa: SIM115  (closed below)
    try:
        with _naming(path), opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with _writable(path):
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Note the file in an error, because the errors of a full disk do not name it."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        error.add_note(f"{NOTE}{path}")
        raise


def written_in(error: OSError | RuntimeError) -> Path | None:
    """The folder of the file whose writing failed, if it is known."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(NOTE)]
    name = getattr(error, "filename", None) or "".join(notes[:1]).removeprefix(NOTE)
    return Path(os.fsdecode(name)).parent if name else None


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        raise UserError(f"{path} cannot be written ({error.strerror}); make its folder writable.") from None


def write_text(path: Path | str, text: str) -> None:
    with atomic(path, "w") as file:
        file.write(text)


def write_json(path: Path | str, value: Any) -> None:
    """Write JSON with sorted keys, so that a change of one number is a diff of one line."""
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    write_text(path, text + "\n")


def line(row: dict[str, float]) -> str:
    """A row of a log of JSON lines."""
    return json.dumps(row) + "\n"


def append(path: Path, row: dict[str, float]) -> None:
    """Add a line of JSON. The file is opened each time, so a deleted file is created again."""
    try:
        with _naming(path), open(path, "a", encoding="utf-8") as file:
            file.write(line(row))
    except FileNotFoundError:
        raise UserError(f"{path.parent} was deleted while it was written to; nothing more is saved in it.") from None


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A temporary folder beside `path`; it replaces `path` only when the block succeeds. For one process at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*.tmp"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    temporary = temporary_of(path)
    temporary.mkdir()
    try:
        yield temporary
        shutil.rmtree(path, ignore_errors=True)
        temporary.rename(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def room(folder: Path, needed: int) -> Iterator[None]:
    """Raise an error if the disk has fewer bytes left than `needed`, or becomes full inside the block."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    amount = f"{needed / 1e9:.2g} GB" if needed else "some space"
    full = UserError(f"The disk of {folder} is full; free {amount} there and run this again.")
    if shutil.disk_usage(existing).free < needed:
        raise full
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            other = written_in(error)
            if other is None:
                raise full from None
            raise UserError(f"The disk of {other} is full; free some space there and run this again.") from None
        raise


def unprotect(path: Path) -> None:
    """Replace a write-protected file (a hard link into a cache) by a copy, which other programs can overwrite."""
    if not path.is_file() or path.is_symlink() or os.access(path, os.W_OK):
        return
    before = path.stat()
    with open(path, "rb") as linked, atomic(path) as copy:
        shutil.copyfileobj(linked, copy)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def digest(path: Path | str, algorithm: str = "sha256") -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def json_digest(value: Any) -> str:
    """sha256 of a JSON value; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of_all(path: Path) -> str:
    """sha256 of a file; for a folder, sha256 of the sorted list of its files' digests and names."""
    if path.is_file():
        return digest(path)
    whole = hashlib.sha256()
    for file in sorted(files_below(path)):
        name = file.relative_to(path).as_posix()
        whole.update(f"{digest(file)}  {name}\n".encode())
    return whole.hexdigest()


def files_below(folder: Path) -> Iterator[Path]:
    """The files in a folder and below it, also through links. Each folder is visited once, so cycles of links end."""
    seen = {folder.resolve()}
    for place, folders, names in os.walk(folder, followlinks=True):
        here = Path(place)
        fresh = []
        for name in sorted(folders):
            target = (here / name).resolve()
            if target not in seen:
                fresh.append(name)
                seen.add(target)
        folders[:] = fresh
        yield from (here / name for name in names if (here / name).is_file())
