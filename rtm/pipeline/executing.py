"""Run Snakemake with a live display of its jobs: a bar for each in a terminal, a line for each in a log."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn

from rtm.core.errors import UserError
from rtm.core.progress import columns
from rtm.core.readers import read_json
from rtm.lineage.freshness import Freshness
from rtm.stages.base import Job, upstream

Update = Callable[[list[Job]], None]  # a function that refreshes the display, given the finished jobs
Progressed = dict[str, Any]  # the progress file of a running job
ERROR_PREFIX = "rtm: "  # the beginning of every error message
INTERVAL = 0.5  # seconds between two updates of the display


def stale(wanted: Sequence[Job]) -> list[Job]:
    """The jobs that must run, for the count."""
    freshness = Freshness()
    return [job for job in upstream(wanted) if not freshness.is_fresh(job)]


def execute(
    waiting: list[Job],
    targets: Sequence[str],  # Snakemake's options and targets
    log: Path,
    console: Console,
    look: Callable[[], None] = lambda: None,  # called repeatedly while Snakemake runs
) -> None:
    """Run Snakemake; an error if a job fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.time()
    show = _live if console.is_terminal else _lines
    with tempfile.TemporaryDirectory(prefix="rtm-") as folder, open(log, "w", encoding="utf-8") as file:
        environment = {**os.environ, "RTM_PROGRESS": folder}
        process = subprocess.Popen(["snakemake", *targets], stdout=file, stderr=subprocess.STDOUT, env=environment)
        try:
            with show(waiting, Path(folder), console) as update:
                while process.poll() is None:
                    update([job for job in waiting if _is_finished(job, began)])
                    look()
                    time.sleep(INTERVAL)
                update([job for job in waiting if _is_finished(job, began)])
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            raise
    if process.returncode:
        raise UserError(failure(log.read_text("utf-8"), log))


def _is_finished(job: Job, since: float) -> bool:
    return job.receipt.exists() and job.receipt.stat().st_mtime >= since


@contextmanager
def _live(waiting: list[Job], folder: Path, console: Console) -> Iterator[Update]:
    """One bar for all jobs, and one for each running job."""
    whole = Progress(*columns()[:3], TimeElapsedColumn(), TextColumn("{task.fields[numbers]}"), console=console)
    task = whole.add_task("all jobs", total=len(waiting), numbers="")
    running = Progress(*columns(), console=console)
    tasks: dict[str, TaskID] = {}

    def update(finished: list[Job]) -> None:
        whole.update(task, completed=len(finished))
        present = dict(_running(folder))
        for name in set(tasks) - set(present):
            running.remove_task(tasks.pop(name))
        for name, seen in present.items():
            if name not in tasks:
                tasks[name] = running.add_task("", total=seen["total"], numbers="")
            running.update(
                tasks[name],
                description=seen["description"],
                total=seen["total"],
                completed=seen["done"],
                numbers=seen["numbers"],
            )

    with Live(Group(whole, running), console=console, refresh_per_second=4):
        yield update


@contextmanager
def _lines(waiting: list[Job], folder: Path, console: Console) -> Iterator[Update]:
    """Without a terminal: print a line for each finished job."""
    printed: set[str] = set()

    def update(finished: list[Job]) -> None:
        for job in finished:
            if job.id not in printed:
                printed.add(job.id)
                console.print(f"[{len(printed)}/{len(waiting)}] {job.id}", markup=False)

    yield update


def _running(folder: Path) -> Iterator[tuple[str, Progressed]]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield path.stem, read_json(path)
        except UserError:  # the job has just ended
            continue


def failure(text: str, log: Path, lines: int = 25) -> str:
    """The error message of the failed job; if there is none, the end of the log."""
    printed = text.splitlines()
    if messages := [line for line in printed if line.startswith(ERROR_PREFIX)]:
        return f"{messages[-1].removeprefix(ERROR_PREFIX)} (From a job; its whole output is in {log}.)"
    return "\n".join([f"Not all jobs succeeded; {log} ends with:", *printed[-lines:]])
