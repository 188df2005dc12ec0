"""Start a training: one process for each GPU, a stop that is no failure, and the way back into SLURM's queue."""

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from rtm.config import Experiment
from rtm.core import distributed
from rtm.core.errors import UserError
from rtm.training.assembly import TrainingTask, train
from rtm.training.cluster import meeting_place, node_count, requeue
from rtm.training.devices import check_devices, choose
from rtm.training.folder import Stopped, history_of
from rtm.training.loggers import check_installed
from rtm.training.loop import STOPPED


def launch(training: TrainingTask) -> None:
    """Train with all processes that the experiment asks for. If the training is stopped, this process ends too."""
    experiment = training.experiment
    resources = experiment.recipe.resources
    processes = resources.processes or resources.gpus
    is_part = "RANK" in os.environ
    check_installed(experiment.recipe.training.loggers)
    use_gpus = check_devices(experiment.name, resources, training.checkpoint)
    if processes > 1 and not is_part:
        is_stopped = _start_processes(processes, training.folder)
    else:
        is_stopped = _join(training, use_gpus)
    if is_stopped and not is_part:
        if requeue():
            _wait_for_the_end()
        sys.exit(STOPPED)


def on_fewer(experiment: Experiment, gpus: int) -> Experiment:
    """The same training on at most `gpus` GPUs. Each GPU does the parts of several and adds up their gradients, so the
    batch, its parts and the groups within the parts do not change."""
    recipe = experiment.recipe
    asked = recipe.resources
    if not asked.gpus:
        raise UserError(f"{experiment.name} trains on the CPU; leave --gpus out.")
    if gpus < 1:
        raise UserError(f"--gpus is {gpus}; give at least 1.")
    fewer = asked.at_most(gpus)
    if fewer.gpus < asked.gpus and "RANK" not in os.environ:
        print(
            f"{experiment.name} asks for {asked.gpus} {asked.gpu_model} GPUs for about {asked.hours:g} hours; on "
            f"{fewer.gpus} it takes about {fewer.hours:g}. Each step adds up the gradients of "
            f"{asked.gpus // fewer.gpus} parts, so that results differ by rounding only.",
            file=sys.stderr,
        )
    parts = recipe.training.accumulate * asked.gpus // fewer.gpus
    training = recipe.training.model_copy(update={"accumulate": parts})
    return replace(experiment, recipe=recipe.model_copy(update={"training": training, "resources": fewer}))


def _start_processes(processes: int, folder: Path) -> bool:
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
    history = history_of(folder)
    return history is not None and history.slices[-1].ended == "stopped"


def _wait_for_the_end(seconds: float = 120) -> None:
    """Wait until SLURM ends this requeued job. If the job exited by itself, it would count as failed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(seconds)


def _join(training: TrainingTask, use_gpus: bool) -> bool:
    """Train in this process, alone or with others; return whether it was stopped."""
    device = distributed.start(use_gpus)
    try:
        choose(device)
        train(training, device)
    except Stopped as stopped:
        if distributed.rank() == 0:
            print(f"rtm: {stopped}", file=sys.stderr)
        return True
    finally:
        distributed.stop()
    return False
