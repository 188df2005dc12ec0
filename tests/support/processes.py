"""Find processes that outlive the test, module or session that started them, by a mark in their environment."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

MARK = "RTM_TEST_ID"
GRACE = 180.0  # seconds to wait for processes that are ending, because Snakemake ends slowly on a busy machine
# helpers that Python and PyTorch keep until the process of the tests ends
KEPT = ("multiprocessing.resource_tracker", "torch/_inductor/compile_worker")


@dataclass(frozen=True)
class Process:
    id: int
    command: str

    def __str__(self) -> str:
        return f"{self.id}: {self.command}"


@contextmanager
def none_left(name: str, grace: float = GRACE) -> Iterator[None]:
    """Mark all processes that are started in this block. At its end, kill those that are still alive, and fail with
    their command lines."""
    outer = os.environ.get(MARK)
    mark = os.environ[MARK] = f"{os.getpid()}:{time.monotonic_ns()}:{name}"
    try:
        yield
    finally:
        os.environ.pop(MARK)
        if outer is not None:
            os.environ[MARK] = outer
    if left := _left(mark, grace):
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process.id, signal.SIGKILL)
        pytest.fail("These processes were left behind:\n" + "\n".join(map(str, left)), pytrace=False)


def _left(mark: str, grace: float) -> list[Process]:
    """The marked processes that are still alive after `grace` seconds."""
    end = time.monotonic() + grace
    while (left := list(marked(mark))) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def marked(mark: str) -> Iterator[Process]:
    """Living processes with this mark, except this process and its permanent helpers."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # the process has just ended, or belongs to another user
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                if not any(name in command for name in KEPT):
                    yield Process(int(folder.name), command[:500])


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports: list[int] = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
