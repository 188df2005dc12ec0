"""The folder of a run: its files, a lock for the process that trains it, and the history of its processes.

run.json has a slice for each process that trained it, with its start and its end. A killed process could not write its
end; then the log shows how far it came.
"""

import errno
import fcntl
import json
import math
import os
import platform
import signal
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
from rtm.core.files import write_json
from rtm.core.readers import UNREADABLE, read_json

TAIL = 1 << 16  # bytes of a log that hold its last line
PATIENCE = 5.0  # seconds to wait for a previous owner that is about to end


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
class History:
    """The slices of a run in order."""

    experiment: str
    seed: int
    slices: Annotated[tuple[Slice, ...], Field(min_length=1)]

    @property
    def is_finished(self) -> bool:
        return self.slices[-1].ended == "done"

    @property
    def gpu_hours(self) -> float:
        return sum(part.seconds * part.gpus for part in self.slices) / 3600

    def facts(self) -> dict[str, Any]:
        """The facts about the training that a receipt records."""
        facts: dict[str, Any] = {
            "gpus": self.slices[-1].gpus,
            "gpu_hours": round(self.gpu_hours, 3),
            "slices": len(self.slices),
        }
        jobs = list(dict.fromkeys(part.job for part in self.slices if part.job))
        if jobs:
            facts["slurm_jobs"] = jobs
        return facts


def history_of(folder: Path) -> History | None:
    """The slices of a run, if any. If a slice is running or was killed, its length comes from the log."""
    path = folder / "run.json"
    if not path.exists():
        return None
    history: History = read_json(path, History, "delete it: the training resumes, only its time so far is lost")
    *earlier, last = history.slices
    if last.ended is None:
        last = replace(last, seconds=max(0.0, _last_written(folder) - last.began))
    return replace(history, slices=(*earlier, last))


def saved_states(folder: Path) -> tuple[Path, Path]:
    """The last save of a run, and the save before it."""
    return folder / "state.pt", folder / "state.prev.pt"


def has_save(folder: Path) -> bool:
    return any(path.exists() for path in saved_states(folder))


def step_of(folder: Path) -> int:
    """The last step in the log of a run."""
    return max((row["step"] for row in log_rows(folder / "log.jsonl", TAIL)), default=0)


def log_rows(log: Path, last_bytes: int | None = None) -> list[dict[str, Any]]:
    """The rows of log.jsonl, or of its last bytes. A half-written or damaged line is left out."""
    if not log.exists():
        return []
    with open(log, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - last_bytes) if last_bytes else 0)
        lines = file.read().splitlines()
    rows = []
    for line in lines:
        with suppress(*UNREADABLE):
            row = json.loads(line)
            assert row["step"] >= 0
            assert all(math.isfinite(value) for value in row.values())
            rows.append(row)
    return rows


@contextmanager
def locked(folder: Path, experiment: str, seed: int, gpus: int) -> Iterator[Callable[[], None]]:
    """Lock the folder and record the time. Yield a function to call before every save (see `only_one`)."""
    with only_one(folder) as check_owner:
        before = history_of(folder) or History(experiment, seed, ())
        earlier = tuple(replace(part, ended=part.ended or "killed") for part in before.slices)
        slurm_job = os.environ.get("SLURM_JOB_ID")
        began = Slice(platform.node(), os.getpid(), slurm_job, gpus, time.time())
        start = time.monotonic()  # because the system clock may be set back

        def write(**end: Any) -> None:
            seconds = round(time.monotonic() - start, 3)
            history = replace(before, slices=(*earlier, replace(began, seconds=seconds, **end)))
            if (folder / "lock").exists():  # otherwise the folder was deleted; do not make it again
                write_json(folder / "run.json", asdict(history))

        write()
        try:
            yield check_owner
        except Stopped:
            write(ended="stopped")
            raise
        except BaseException:
            write(ended="failed")
            raise
        write(ended="done")


def listen(stop: Callable[[], None]) -> None:
    """Call `stop` at a signal that asks the run to save its state and end. A second Ctrl-C ends the run at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        if "RANK" not in os.environ:  # torchrun repeats a Ctrl-C that its processes have already received
            signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    # SLURM sends URG before the walltime, because schedulers and shells in between ignore URG, but not TERM and USR1
    for number in (signal.SIGTERM, signal.SIGURG, signal.SIGINT, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # under `nohup` it stays ignored
            signal.signal(number, ask)


def is_running(folder: Path) -> bool:
    """Whether a process is training the run now, that is, holds its lock."""
    try:
        with open(folder / "lock", "rb") as file:
            return not _locked(file.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


@contextmanager
def only_one(folder: Path) -> Iterator[Callable[[], None]]:
    """Lock the run until this process ends, also on a shared file system.

    If a file system was unreachable, it can lose the lock of a living process. So the yielded function raises an error
    if another process has locked the run in the meantime.
    """
    path = folder / "lock"
    name = f"{_here()}:{os.getpid()}"
    with _lock_file(path) as file:
        until = time.monotonic() + PATIENCE
        while not _locked(file.fileno(), fcntl.LOCK_EX):
            if time.monotonic() > until:
                owner = path.read_text("utf-8").strip() or "another process"
                raise UserError(f"{folder} is already being trained by {owner}; wait for it, or end it first.")
            time.sleep(0.1)
        file.truncate(0)
        file.write(name)
        file.flush()
        os.fsync(file.fileno())
        for left in folder.glob(".*.tmp"):  # left over because an owner was killed during a save
            left.unlink(missing_ok=True)

        def check_owner() -> None:
            # To lock again makes a network file system drop its cache of the file. To open and close the file again
            # would release the lock.
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
        return open(path, "a+", encoding="utf-8")
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        above = (path, *path.absolute().parents)
        there = next(place for place in above if os.access(place, os.F_OK))
        last = path.read_text("utf-8").strip() if os.access(path, os.R_OK) else ""
        raise UserError(
            f"{path.parent} belongs to {_owner(there)}{f' (last trained by {last})' if last else ''} and you cannot "
            f"write to it ({error.filename}); let its owner resume it, or ask for write permission on its files."
        ) from None


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:  # this machine has no name for the user id
        return f"user {path.stat().st_uid}"


def _here() -> str:
    """The host, with the SLURM job if there is one."""
    job = os.environ.get("SLURM_JOB_ID")
    return f"SLURM job {job} on {platform.node()}" if job else platform.node()


def _locked(file: int, kind: int) -> bool:
    """Take a POSIX lock, which also works on network file systems; False if another process holds it."""
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
    files = [folder / "run.json", folder / "log.jsonl"]
    return max(file.stat().st_mtime for file in files if file.exists())
