"""Wait as long as there is progress: a test may be slow on a busy machine, but it fails if it stands still."""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

T = TypeVar("T")
STANDSTILL = 240.0  # seconds without any change; even a busy machine imports everything in less time
PAUSE = 0.05
LOOK_EVERY = 5.0


def wait_for(
    condition: Callable[[], T], progress: Callable[[], object], standstill: float = STANDSTILL, pause: float = PAUSE
) -> T:
    """The condition's first true value. Fail if `progress` has the same value for too long."""
    last = progress()
    changed = time.monotonic()
    looked = changed
    while not (met := condition()):
        time.sleep(pause)
        if time.monotonic() - looked < LOOK_EVERY:
            continue
        now = progress()
        looked = time.monotonic()
        if now != last:
            last = now
            changed = looked
        elif looked - changed > standstill:
            pytest.fail(f"Nothing has changed for {standstill:.0f} seconds:\n{str(last)[-5000:]}")
    return met


def wait_for_end(process: subprocess.Popen[bytes], progress: Callable[[], object]) -> int:
    """Wait for the end of a process; return its exit code."""
    wait_for(lambda: process.poll() is not None, progress)
    return process.returncode


def tail(path: Path, characters: int = 3000) -> str:
    """The end of a growing text file, to show progress and failures; empty if there is no file yet."""
    return path.read_text("utf-8", errors="replace")[-characters:] if path.exists() else ""
