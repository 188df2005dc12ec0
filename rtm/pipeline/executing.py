"""Run Snakemake with a live display of its jobs: a bar for each in a terminal, a line for each in a log."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn

from rtm.core.errors import UserError
from rtm.core.files import read_json
from rtm.core.progress import columns
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger

Update = Callable[[list[Job]], None]  # a function that refreshes the display, given the finished jobs
Progressed = dict[str, Any]  # the progress file of a running job
Started = Callable[[dict[str, str]], AbstractContextManager[Mapping[str, str]]]
ERROR_PREFIX = "rtm: "  # the beginning of every error message
INTERVAL = 0.5  # seconds between two updates of the display


def stale(wanted: Sequence[Job]) -> list[Job]:
    """The jobs that must run, for the count; without jobs whose outputs are temporary."""
    ledger = Ledger()
    needed = {job.id: job for report in wanted for job in report.upstream()}
    return [job for job in needed.values() if not job.temporary and not ledger.fresh(job)]


def execute(
    todo: list[Job],
    targets: Sequence[str],  # Snakemake's options and targets
    log: Path,
    console: Console,
    started: Started = nullcontext,  # starts helpers of the jobs and yields the jobs' environment
    look: Callable[[], None] = lambda: None,  # called repeatedly while Snakemake runs
) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="rtm-") as folder, open(log, "w") as file:
        show, given = (_live if console.is_terminal else _lines), {**os.environ, "RTM_PROGRESS": folder}
        with started(given) as environment:
            process = subprocess.Popen(["snakemake", *targets], stdout=file, stderr=subprocess.STDOUT, env=environment)
            try:
                with show(todo, Path(folder), console) as update:
                    while process.poll() is None:
                        update([job for job in todo if _finished(job, began)])
                        look()
                        time.sleep(INTERVAL)
                    update([job for job in todo if _finished(job, began)])
            except KeyboardInterrupt:
                process.terminate()
                process.wait()
                raise
    if process.returncode:
        raise UserError(failure(log.read_text(), log))


def _finished(job: Job, since: float) -> bool:
    return job.receipt.exists() and job.receipt.stat().st_mtime >= since


@contextmanager
def _live(todo: list[Job], folder: Path, console: Console) -> Iterator[Update]:
    """One bar for all jobs, and one for each running job."""
    whole = Progress(*columns()[:3], TimeElapsedColumn(), TextColumn("{task.fields[numbers]}"), console=console)
    task = whole.add_task("all jobs", total=len(todo), numbers="")
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
def _lines(todo: list[Job], folder: Path, console: Console) -> Iterator[Update]:
    """Without a terminal: print a line for each finished job."""
    printed: set[str] = set()

    def update(finished: list[Job]) -> None:
        for job in finished:
            if job.id not in printed:
                printed.add(job.id)
                console.print(f"[{len(printed)}/{len(todo)}] {job.id}", markup=False)

    yield update


def _running(folder: Path) -> Iterator[tuple[str, Progressed]]:
    for path in sorted(folder.glob("*.json")):
        try:
            yield path.stem, read_json(path)
        except UserError:  # the job has just ended
            continue


def failure(text: str, log: Path, lines: int = 25) -> str:
    """The error message of the failed job; if there is none, the end of the log."""
    if said := [line.removeprefix(ERROR_PREFIX) for line in text.splitlines() if line.startswith(ERROR_PREFIX)]:
        return f"{said[-1]} (From a job; its whole output is in {log}.)"
    return "\n".join([f"Not all jobs succeeded; {log} ends with:", *text.splitlines()[-lines:]])
