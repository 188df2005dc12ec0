"""`rtm try FOLDER`: train MLP and RTM side by side on any images, up to pictures and numbers."""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from rtm.cli.context import Arguments
from rtm.cli.forkserver import running
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.lineage.job import Job, Stage
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import run_folder
from rtm.page.html import write_page
from rtm.pipeline.executing import execute, stale
from rtm.pipeline.graph import jobs
from rtm.pipeline.runs import is_running
from rtm.reports.status import statuses
from rtm.trial import beginning, recipe
from rtm.trial.messages import announce, conclude, remarks

REFRESH = 20  # seconds between two versions of the live page


def try_folder(arguments: Arguments) -> None:
    """Train MLP and RTM side by side on a folder of images; the same command resumes."""
    if arguments.export:
        from rtm.trial.export import export

        print(export(arguments.export))
        return
    if arguments.source is None:
        raise UserError("Name a folder of images: rtm try FOLDER.")
    load()  # report mistakes in params/ before anything is written
    console = Console(highlight=False, markup=False, soft_wrap=True)
    name = arguments.name or beginning.name_of(arguments.source)
    if (possible := beginning.name_of(Path(name))) != name:
        raise UserError(f"{name!r} cannot name a trial; write small letters, digits and _, as in {possible}.")
    with beginning.alone(name):
        if beginning.is_begun(name, arguments.source):
            _go_on(arguments, name, console)
        else:
            _begin(arguments, name, console)
        config = load(str(recipe.folder_of(name)))
        if arguments.prepare:
            console.print(f"Prepared; on a cluster: snakemake --profile slurm {' '.join(_reports(config))}")
        else:
            _run(config, not arguments.pictures and _can_measure(console), console)


def _reports(config: Config) -> list[str]:
    return [str(job.outputs[0]) for job in jobs(config).values() if job.stage in (Stage.TABLE, Stage.FIGURE)]


def _go_on(arguments: Arguments, name: str, console: Console) -> None:
    _refuse_changes(arguments, name)
    folder = recipe.folder_of(name)
    console.print(f"Going on with {folder}/params.yaml.")
    if beginning.has_changed(name, arguments.source):
        console.print(
            f"{arguments.source} has other images than at the beginning, and the trial keeps those it has; for a trial "
            f"of the new ones give another --name, or delete {folder}."
        )


def _refuse_changes(arguments: Arguments, name: str) -> None:
    given = [option for option in ("minutes", "epochs", "resolution") if getattr(arguments, option) is not None]
    if given:
        folder = recipe.folder_of(name)
        raise UserError(
            f"{folder} is begun and keeps its parameters; leave --{given[0]} out to go on, edit {folder}/params.yaml, "
            "or begin another trial with --name."
        )


def _begin(arguments: Arguments, name: str, console: Console) -> None:
    """Prepare the images and write the parameters; print how long the trial will take."""
    source, machine = arguments.source, beginning.machine_here()
    _refuse_lengths(arguments)
    _fetch("vgg16")
    found, choice = beginning.look(source, machine, name, arguments.resolution)
    choice, kept, sha256 = beginning.prepared(source, found, choice)
    for sentence in remarks(found, kept, choice):
        console.print(sentence)
    from rtm.trial.timing import length

    choice, seconds = length(choice, sha256, arguments.minutes, arguments.epochs)
    beginning.write(choice, sha256, source, 2 * seconds / 3600)
    announce(load(str(recipe.folder_of(name))), choice, seconds, console)


def _refuse_lengths(arguments: Arguments) -> None:
    if arguments.minutes is not None and arguments.epochs is not None:
        raise UserError("Give --minutes or --epochs, not both.")
    for option in ("minutes", "epochs"):
        if (value := getattr(arguments, option)) is not None and not (0 < value < math.inf):
            raise UserError(f"--{option} is {value}; give a number above 0.")


def _run(config: Config, measured: bool, console: Console) -> None:
    """Make everything that is missing. At Ctrl-C the trainings save their state."""
    graph, layout = jobs(config), config.layout
    trainings = [job for job in graph.values() if job.stage is Stage.TRAIN]
    wanted = [job for job in graph.values() if job.stage.is_view] if measured else trainings
    todo = stale(wanted)
    if todo:
        targets = dict.fromkeys(str(path) for job in wanted for path in job.outputs[:1])
        gpus = any(job.compute.gpus for job in trainings)
        options = ["--profile", "profiles/local"] if gpus else ["--cores", "all"]
        try:
            started, with_page = nullcontext if gpus else running, _page_writer(config)  # forks cannot use a GPU
            execute(todo, [*options, "--", *targets], layout.log("try", "snakemake"), console, started, with_page)
        except KeyboardInterrupt:
            console.print("Stopping within 20 steps, to save the trainings; Ctrl-C again ends them at once.")
            _wait_for_saves(trainings)
            console.print("Stopped; the trainings are saved, and the same command goes on.")
            raise
    _page_writer(config, refresh=None)()
    conclude(config, measured, console)


def _can_measure(console: Console) -> bool:
    try:
        _fetch("inception")
    except UserError as error:
        console.print(f"Without numbers, only pictures: {error}")
        return False
    return True


def _fetch(network: str) -> None:
    """Fetch the weights of a frozen network if they are missing."""
    from rtm.cli.making import fetch

    if not Ledger().fresh(jobs(load())[f"fetch/{network}"]):
        fetch(argparse.Namespace(name=network, source=None, wait=False, scale="paper"))


def _page_writer(config: Config, refresh: int | None = REFRESH) -> Callable[[], None]:
    """A function that writes the page, but not more often than it refreshes."""
    last = -math.inf

    def write() -> None:
        nonlocal last
        if refresh is None or time.monotonic() - last > refresh:
            write_page(config, config.layout, statuses(config), refresh)
            last = time.monotonic()

    return write


def _wait_for_saves(trainings: Sequence[Job]) -> None:
    ledger = Ledger()
    folders = [run_folder(ledger, job) for job in trainings]
    while any(is_running(folder) for folder in folders):
        time.sleep(0.2)
