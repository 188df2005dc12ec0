"""`rtm train`: check the devices, start one process for each GPU, and check that all end well."""

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from rtm.config import Config, Experiment
from rtm.core import distributed
from rtm.core.errors import UserError
from rtm.core.layout import Layout
from rtm.data.parts import check_parts
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.store import served
from rtm.pipeline.devices import check_devices, choose
from rtm.pipeline.graph import jobs
from rtm.pipeline.loggers import check_installed
from rtm.pipeline.runs import Stopped, book_of
from rtm.pipeline.slurm import meeting_place, node_count, requeue
from rtm.pipeline.unfinished import report_unfinished
from rtm.training.assembly import train
from rtm.training.loop import STOPPED


def train_experiment(
    config: Config,
    layout: Layout,
    experiment: Experiment,
    seed: int,
    gpus: int | None = None,  # the most GPUs to use
) -> None:
    job, asked = jobs(config)[f"train/{experiment.name}/seed{seed}"], experiment.recipe.resources
    if gpus is not None:
        experiment = on_fewer(experiment, gpus)
    resources = experiment.recipe.resources
    processes, is_part = resources.processes or resources.gpus, "RANK" in os.environ
    ledger = Ledger()
    if not is_part and ledger.fresh(job):  # Snakemake forces a job if it did not see its last attempt end
        print(f"{job.id} is finished; there is nothing to do.")
        return
    if not is_part and served(job):
        return
    check_installed(experiment.recipe.training.loggers)
    use_gpus = check_devices(experiment.name, resources, job.outputs[0])
    if not is_part:
        check_parts(config, layout, experiment)
        report_unfinished(ledger, job)
        if resources.gpus < asked.gpus:
            print(
                f"{experiment.name} asks for {asked.gpus} {asked.gpu_model} GPUs for about {asked.hours:g} hours; on "
                f"{resources.gpus} it takes about {resources.hours:g}. Each step adds up the gradients of "
                f"{asked.gpus // resources.gpus} parts, so that results differ by rounding only.",
                file=sys.stderr,
            )
    if processes > 1 and not is_part:
        stopped = _launch(processes, layout.run(experiment.name, ledger.fingerprint(job)))
    else:
        stopped = _join(config, layout, experiment, seed, job, use_gpus)
    if stopped and not is_part:
        if requeue():
            _wait_for_the_end()
        sys.exit(STOPPED)


def on_fewer(experiment: Experiment, gpus: int) -> Experiment:
    """The same training on at most `gpus` GPUs. Each GPU does the parts of several and adds up their gradients, so the
    batch, its parts and the groups within the parts do not change."""
    recipe, asked = experiment.recipe, experiment.recipe.resources
    if not asked.gpus:
        raise UserError(f"{experiment.name} trains on the CPU; leave --gpus out.")
    if gpus < 1:
        raise UserError(f"--gpus is {gpus}; give at least 1.")
    given = asked.at_most(gpus)
    parts = recipe.training.accumulate * asked.gpus // given.gpus
    training = recipe.training.model_copy(update={"accumulate": parts})
    return replace(experiment, recipe=recipe.model_copy(update={"training": training, "resources": given}))


def _launch(processes: int, folder: Path) -> bool:
    """Start processes with this command line and RANK set, as torchrun does. Return whether they were stopped.

    A stopped process exits with 0. At any other exit code torchrun would kill the others, perhaps during a save.
    """
    here = processes // node_count()
    config = LaunchConfig(nproc_per_node=here, max_restarts=0, rdzv_backend="c10d", **meeting_place())
    try:
        elastic_launch(config, sys.executable)("-m", "rtm.cli.main", *sys.argv[1:])
    except ChildFailedError:  # the process has printed the reason
        sys.exit(1)
    except SignalException:
        return True
    book = book_of(folder)
    return book is not None and book.slices[-1].ended == "stopped"


def _wait_for_the_end(seconds: float = 120) -> None:
    """Wait until SLURM ends this requeued job. If the job exited by itself, it would count as failed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(seconds)


def _join(config: Config, layout: Layout, experiment: Experiment, seed: int, job: Job, use_gpus: bool) -> bool:
    """Train in this process, alone or with others; return whether it was stopped."""
    device = distributed.start(use_gpus)
    try:
        choose(device)
        train(config, layout, experiment, seed, job, device)
    except Stopped as stopped:
        if distributed.rank() == 0:
            print(f"rtm: {stopped}", file=sys.stderr)
        return True
    finally:
        distributed.stop()
    return False
