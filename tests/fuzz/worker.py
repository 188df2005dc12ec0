"""The process that runs the cases. If it crashes, hangs or takes too much memory, the count goes on."""

import multiprocessing
import os
import resource
import signal
import tempfile
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random

from fuzz import FUZZERS, discover

from rtm.core.errors import UserError

STARTING = 300.0  # seconds that the process has to start ...
PATIENCE = 60.0  # ... and for a case
SPARE = 2 << 30  # bytes of memory that the cases may add


class Worker:
    """Runs one case at a time in a process; a new process replaces one that ended."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self.pool: ProcessPoolExecutor | None = None

    def run(self, name: str, number: int, seed: int = 0) -> str:
        """Why the case failed; nothing if it was handled."""
        if self.pool is None:
            self.pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _prepare)
            self.pool.submit(len, ()).result(STARTING)
        (process,) = _processes(self.pool)
        try:
            return self.pool.submit(tried, name, number, seed).result(self.patience)
        except TimeoutError:
            reason = f"hangs: no end after {self.patience:g} s"
        except BrokenProcessPool:
            process.join()
            code = process.exitcode or 0
            reason = f"the process ended ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})"
        self.close()
        return reason

    def close(self) -> None:
        if self.pool is not None:
            for process in _processes(self.pool):
                process.kill()
            self.pool.shutdown()
            self.pool = None


def _processes(pool: ProcessPoolExecutor) -> list[BaseProcess]:
    return list((pool._processes or {}).values())


def _prepare() -> None:
    """Drop the output of the product, limit the memory, and register the fuzzers."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    warnings.simplefilter("ignore")  # a damaged picture may cause a warning
    discover()
    statm = Path("/proc/self/statm")
    if statm.exists():
        pages = int(statm.read_text("utf-8").split()[0])
        most = pages * resource.getpagesize() + SPARE
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def case(name: str, number: int, seed: int) -> Random:
    """The random numbers of a case, always the same ones."""
    return Random(f"{seed} {name} {number}")


def tried(name: str, number: int, seed: int) -> str:
    """Why a case failed; nothing if it was handled."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            FUZZERS[name](case(name, number, seed), Path(folder))
        except UserError as error:
            good = str(error) and str(error).isprintable()
            return "" if good else f"no message of one line: {str(error)!r}"
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(frame.filename).name}:{frame.lineno}"
            return f"{type(error).__name__} at {place}: {str(error)[:200]}"
    return ""
