"""`rtm demo`: run the pipeline on the embedded digits with a live display, then print the tables."""

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn

from rtm.cli.forkserver import running
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.core.files import read_json
from rtm.core.layout import Layout
from rtm.core.progress import columns
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.pipeline.graph import jobs
from rtm.reports.cells import build
from rtm.reports.terminal import print_table

Update = Callable[[list[Job]], None]  # refreshes the display; gets the finished jobs
Progressed = dict[str, Any]  # the progress file of a running job
LOG = Path("demo/logs/snakemake.log")
INTERVAL = 0.5  # seconds between two updates of the display


def run(cores: int) -> None:
    config = load("demo")
    layout, console, began = config.layout, Console(highlight=False), time.monotonic()
    todo = _stale(config)
    if todo:
        console.print(f"Demo: {len(todo)} jobs on {cores} cores, from embedded images to LaTeX. Log: {LOG}")
        _execute(todo, layout.page(), cores, console)
        console.print(f"Done in {(time.monotonic() - began) / 60:.1f} minutes.\n")
    else:
        console.print("There is nothing to do: all of demo/ is up to date with its parameters, code and data.\n")
    for name in config.tables:
        print_table(config, layout, build(config, layout, name), console)
    _print_places(layout, console)


def _stale(config: Config) -> list[Job]:
    """The jobs that must run and keep their outputs, for the count."""
    graph, ledger = jobs(config), Ledger()
    needed = {
        job.id: job
        for stage in ("table", "figure", "report")
        for report in graph.values()
        if report.stage == stage
        for job in report.upstream()
    }
    return [job for job in needed.values() if not job.temporary and not ledger.fresh(job)]


def _execute(todo: list[Job], page: Path, cores: int, console: Console) -> None:
    LOG.parent.mkdir(parents=True, exist_ok=True)
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="rtm-") as folder, open(LOG, "w") as log:
        command = ["snakemake", "--cores", str(cores), "--", "demo", str(page)]
        show = _live if console.is_terminal else _lines
        with running({**os.environ, "RTM_PROGRESS": folder}) as environment:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
            try:
                with show(todo, Path(folder), console) as update:
                    while process.poll() is None:
                        update([job for job in todo if _finished(job, began)])
                        time.sleep(INTERVAL)
                    update([job for job in todo if _finished(job, began)])
            except KeyboardInterrupt:
                process.terminate()
                process.wait()
                raise
    if process.returncode:
        raise UserError(f"The demo failed; {LOG} ends with:\n{_end(LOG)}")


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


def _end(path: Path, lines: int = 25) -> str:
    return "\n".join(path.read_text().splitlines()[-lines:])


def _print_places(layout: Layout, console: Console) -> None:
    reports = layout.table("x").parent
    console.print(f"LaTeX, CSV and Markdown  {reports}/tab_*")
    console.print(f"figures                  {layout.figure('x').parent}/")
    console.print(f"metrics                  {layout.root}/results/*/metrics.json")
    console.print(f"lineage of every number  {layout.root}/lineage/")
    console.print(f"all of it on one page    {layout.page()}")
