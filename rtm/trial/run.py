"""Make everything of a trial that is missing, with a page that refreshes itself, and print what was made."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from rtm.config import Config, Experiment
from rtm.lineage.begun import run_folder
from rtm.lineage.freshness import Freshness
from rtm.page.html import write_page
from rtm.pipeline.executing import execute, stale
from rtm.pipeline.status import statuses
from rtm.reports.sheets import build
from rtm.reports.summary import seed_metrics
from rtm.reports.terminal import print_table
from rtm.stages.base import Job
from rtm.stages.evaluate import Evaluate
from rtm.stages.figure import Figure
from rtm.stages.graph import jobs
from rtm.stages.report import Report
from rtm.stages.train import Train
from rtm.training.folder import is_running

REFRESH = 20  # seconds between two versions of the live page
SEED = 0


def reports(config: Config) -> list[str]:
    """The files of its table and figures."""
    return [str(job.first) for job in jobs(config).values() if job.stage.name in ("table", "figure")]


def run(config: Config, measured: bool, console: Console) -> None:
    """Make everything that is missing. At Ctrl-C the trainings save their state."""
    graph = jobs(config)
    trainings = [job for job in graph.values() if job.stage.name == "train"]
    wanted = [job for job in graph.values() if job.stage.shows] if measured else trainings
    if missing := stale(wanted):
        targets = dict.fromkeys(str(job.first) for job in wanted)
        on_gpu = any(job.cost.gpus for job in trainings)
        options = ["--profile", "profiles/local"] if on_gpu else ["--cores", "all"]
        log = config.root / "logs/try/snakemake.log"
        try:
            execute(missing, [*options, "--", *targets], log, console, _page_writer(config))
        except KeyboardInterrupt:
            console.print("Stopping within 20 steps, to save the trainings; Ctrl-C again ends them at once.")
            _wait_for_saves(trainings)
            console.print("Stopped; the trainings are saved, and the same command goes on.")
            raise
    write_page(config, statuses(config))
    conclude(config, measured, console)


def _page_writer(config: Config) -> Callable[[], None]:
    """A function that writes the page, but not more often than it refreshes."""
    last = -math.inf

    def write() -> None:
        nonlocal last
        if time.monotonic() - last > REFRESH:
            write_page(config, statuses(config), REFRESH)
            last = time.monotonic()

    return write


def _wait_for_saves(trainings: Sequence[Job]) -> None:
    freshness = Freshness()
    folders = [run_folder(job, freshness.parts(job)) for job in trainings]
    while any(is_running(folder) for folder in folders):
        time.sleep(0.2)


def conclude(config: Config, measured: bool, console: Console) -> None:
    """Print the numbers, and where the pictures are."""
    if measured:
        for name in config.tables:
            print_table(build(config, name), console)
        for experiment in config.experiments.values():
            console.print(_distance(config, experiment))
        pictures = [Figure().path(config, "png", figure=name) for name in config.figures]
    else:
        pictures = [path for experiment in config.experiments.values() for path in _last_grid(config, experiment)]
    lines = [
        "pictures",
        *(f"  {path}" for path in pictures),
        "all of it on one page, for a browser",
        f"  {Report().job(config).first}",
        "more pictures",
        *(f"  rtm generate {config.root}/{name}" for name in config.experiments),
    ]
    console.print(*lines, sep="\n")


def _distance(config: Config, experiment: Experiment) -> str:
    protocol = experiment.recipe.evaluation.protocols[0]
    job = Evaluate().job(config, experiment=experiment.name, protocol=protocol, seed=SEED)
    numbers = seed_metrics(job)["metrics"]["native"]
    kid = 1000 * numbers["kid"]
    error = 1000 * numbers["kid_se"]
    return f"KID ×10³ of {experiment.name}: {kid:.1f} ± {error:.1f} (standard error)"


def _last_grid(config: Config, experiment: Experiment) -> list[Path]:
    job = Train().job(config, experiment=experiment.name, seed=SEED)
    folder = run_folder(job, Freshness().parts(job))
    return sorted(folder.glob("grid_*.png"))[-1:]
