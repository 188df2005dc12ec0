"""The folder of a run: a lock for the process that trains it, released when that process ends, and the time so far.

run.json is the book of its slices: each job that trains the run writes its start and its end. A killed job could not
write its end; the log then shows how far it came.
"""

import errno
import fcntl
import json
import math
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Any, Literal

from pydantic import Field

from rtm.config.base import Finite
from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE, read_json, write_json

PATIENCE = 5.0  # seconds to wait for an owner that is just ending


class Stopped(Exception):  # noqa: N818  (not an error)
    """The run got a stop signal and saved its state."""


@dataclass(frozen=True)
class Slice:
    """The part of a training that one job did."""

    host: str
    pid: int
    job: str | None  # of SLURM
    gpus: Annotated[int, Field(ge=0)]
    began: Finite  # Unix time
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    ended: Literal["done", "stopped", "failed", "killed"] | None = None


@dataclass(frozen=True)
class Book:
    """The slices of a run in order."""

    experiment: str
    seed: int
    slices: Annotated[tuple[Slice, ...], Field(min_length=1)] = ()

    @property
    def gpu_hours(self) -> float:
        return sum(each.seconds * each.gpus for each in self.slices) / 3600

    def facts(self) -> dict[str, Any]:
        """The facts about the training that a receipt records."""
        facts = {"gpus": self.slices[-1].gpus, "gpu_hours": round(self.gpu_hours, 3), "slices": len(self.slices)}
        jobs = list(dict.fromkeys(each.job for each in self.slices if each.job))
        return {**facts, "slurm_jobs": jobs} if jobs else facts


def book_of(folder: Path) -> Book | None:
    """The book of a run, if any; the log gives the length of a slice that is running or was killed."""
    path = folder / "run.json"
    if not path.exists():
        return None
    book: Book = read_json(path, Book, "delete it: the training resumes, only its time so far is lost")
    *earlier, last = book.slices
    if last.ended is None:
        last = replace(last, seconds=max(0.0, _last_written(folder) - last.began))
    return replace(book, slices=(*earlier, last))


def log_rows(log: Path, last_bytes: int | None = None) -> list[dict[str, Any]]:
    """The rows of log.jsonl, or those in its last bytes; a line that is half written or damaged is left out."""
    if not log.exists():
        return []
    with open(log, "rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - (last_bytes or sys.maxsize)))
        lines = file.read().splitlines()
    rows = []
    for line in lines:
        with suppress(*UNREADABLE):
            row = json.loads(line)
            assert row["step"] >= 0 and all(math.isfinite(value) for value in row.values())
            rows.append(row)
    return rows


@contextmanager
def training(folder: Path, experiment: str, seed: int, gpus: int) -> Iterator[Callable[[], None]]:
    """Lock the folder and book the time; yields a function to call before every save (see `only_one`)."""
    with only_one(folder) as check_owner:
        before = book_of(folder) or Book(experiment, seed)
        earlier = tuple(replace(each, ended=each.ended or "killed") for each in before.slices)
        began = Slice(platform.node(), os.getpid(), os.environ.get("SLURM_JOB_ID"), gpus, time.time())
        start = time.monotonic()  # a clock may be set back

        def book(**end: Any) -> None:
            slices = (*earlier, replace(began, seconds=round(time.monotonic() - start, 3), **end))
            if (folder / "lock").exists():  # a folder that was deleted stays so
                write_json(folder / "run.json", asdict(replace(before, slices=slices)))

        book()
        try:
            yield check_owner
        except Stopped:
            book(ended="stopped")
            raise
        except BaseException:
            book(ended="failed")
            raise
        book(ended="done")


def listen(stop: Callable[[], None]) -> None:
    """Call `stop` at a signal that asks the run to save itself and end; a second Ctrl-C ends it at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        if "RANK" not in os.environ:  # torchrun sends its processes a Ctrl-C that they have already got
            signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    # SLURM sends URG before the walltime: schedulers and shells in between ignore it, unlike TERM and USR1
    for number in (signal.SIGTERM, signal.SIGURG, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # `nohup` ignores it
            signal.signal(number, ask)


def is_running(folder: Path) -> bool:
    """Whether a process is training the run at this moment, that is, holds its lock."""
    try:
        with open(folder / "lock", "rb") as file:
            return not _locked(file.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


@contextmanager
def only_one(folder: Path) -> Iterator[Callable[[], None]]:
    """Lock the run until this process ends, on a shared file system too.

    A file system that was unreachable can lose the lock of a living process: the yielded function raises an error if
    another process has taken the run since then.
    """
    path, name = folder / "lock", f"{_here()}:{os.getpid()}"
    with _lock_file(path) as file:
        until = time.monotonic() + PATIENCE
        while not _locked(file.fileno(), fcntl.LOCK_EX):
            if time.monotonic() > until:
                owner = path.read_text().strip() or "another process"
                raise UserError(f"{folder} is already being trained by {owner}; wait for it, or end it first.")
            time.sleep(0.1)
        file.truncate(0)
        file.write(name)
        file.flush()
        os.fsync(file.fileno())
        for left in folder.glob(".*.tmp"):  # left by an owner that was killed during a save
            left.unlink(missing_ok=True)

        def check_owner() -> None:
            # taking the lock again makes a network file system drop its cache of the file; opening and closing the
            # file a second time would release the lock
            if not path.exists():
                raise UserError(f"{folder} was deleted while it was trained; this process stops without saving.")
            held = _locked(file.fileno(), fcntl.LOCK_EX)
            file.seek(0)
            if not (held and os.path.samestat(path.stat(), os.fstat(file.fileno())) and file.read() == name):
                raise UserError(f"{folder} was taken over by another process; this one stops without saving.")

        yield check_owner


def _lock_file(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return open(path, "a+")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        there = next(each for each in (path, *path.absolute().parents) if os.access(each, os.F_OK))
        last = path.read_text().strip() if os.access(path, os.R_OK) else ""
        raise UserError(
            f"{path.parent} belongs to {_owner(there)}{f' (last trained by {last})' if last else ''} and you cannot "
            f"write to it ({error.filename}); let its owner resume it, or ask for write permission on its files."
        ) from None


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:  # this machine knows no name for the user id
        return f"user {path.stat().st_uid}"


def _here() -> str:
    """The host, with the SLURM job if there is one."""
    job = os.environ.get("SLURM_JOB_ID")
    return f"SLURM job {job} on {platform.node()}" if job else platform.node()


def _locked(file: int, kind: int) -> bool:
    """Take a POSIX lock, which network file systems honour; False if another process holds it."""
    try:
        fcntl.lockf(file, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise UserError(
                f"The file system of runs/ cannot lock files ({error.strerror}); mount it with locks, or make "
                "runs/ a link to a file system that has them."
            ) from None
        return False
    return True


def _last_written(folder: Path) -> float:
    return max((folder / name).stat().st_mtime for name in ("run.json", "log.jsonl") if (folder / name).exists())
