"""Show the progress of long work: a bar in a terminal, lines in a log, or a small file for a display of many jobs.

With RTM_PROGRESS=DIR each job updates DIR/<pid>.json and prints nothing, so that one display (`rtm demo`) can show all
running jobs.
"""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from rtm.core.files import write_json

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

T = TypeVar("T")


class ProgressReport(Protocol):
    """Called with the number of finished steps and the numbers to show."""

    def __call__(self, done: int, **numbers: float) -> None: ...


def _text(numbers: dict[str, float]) -> str:
    words = [f"{name} {value:.4g}" for name, value in numbers.items()]
    return "  ".join(words)


def rough_time(seconds: float) -> str:
    """A time as text: 3.1 h, 45.0 min, 90 s."""
    if seconds >= 2 * 3600:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 2 * 60:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.0f} s"


@contextmanager
def progress(description: str, total: int) -> Iterator[ProgressReport]:
    """Yield a function to call after each step."""
    folder = os.environ.get("RTM_PROGRESS")
    if folder:
        with _to_file(Path(folder) / f"{os.getpid()}.json", description, total) as report:
            yield report
    elif sys.stderr.isatty() and find_spec("rich"):  # a light install has no rich
        with _to_terminal(description, total) as report:
            yield report
    else:
        yield _to_log(description, total)


@contextmanager
def _to_file(path: Path, description: str, total: int) -> Iterator[ProgressReport]:
    began = time.time()
    last = 0.0

    def report(done: int, **numbers: float) -> None:
        nonlocal last
        if time.time() - last > 0.5:
            last = time.time()
            state = {"description": description, "done": done, "total": total, "began": began}
            write_json(path, {**state, "numbers": _text(numbers)})

    try:
        report(0)
        yield report
    finally:
        path.unlink(missing_ok=True)


def columns() -> "list[ProgressColumn]":
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return [
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[numbers]}"),
    ]


@contextmanager
def _to_terminal(description: str, total: int) -> Iterator[ProgressReport]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(*columns(), console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total, numbers="")

        def report(done: int, **numbers: float) -> None:
            bar.update(task, completed=done, numbers=_text(numbers))

        yield report


def _to_log(description: str, total: int) -> ProgressReport:
    """Print lines less and less often, so that the whole log of a long job stays short."""
    began = time.time()
    last = began
    before = 0  # finished steps at the last line, because the first steps of a resumed job may have taken no time

    def report(done: int, **numbers: float) -> None:
        nonlocal last, before
        now = time.time()
        pause = min(600, max(10, 0.05 * (now - began)))
        if now - last > pause:
            left = (now - last) * (total - done) / max(done - before, 1)
            last = now
            before = done
            words = [f"{description}: {done}/{total}", f"{rough_time(left)} left", _text(numbers)]
            print("  ".join(words), file=sys.stderr, flush=True)

    return report


def track(items: Iterable[T], description: str, total: int) -> Iterator[T]:
    """Iterate over `items` with progress."""
    with progress(description, total) as report:
        for done, item in enumerate(items, start=1):
            yield item
            report(done)
