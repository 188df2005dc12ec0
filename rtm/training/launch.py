"""`rtm train`: check the devices, start as many processes as GPUs, lock the run, train, and leave the checkpoint."""

import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import torch
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from rtm.config import Config, Experiment
from rtm.core import distributed
from rtm.core.files import room
from rtm.core.layout import Layout, saved_states
from rtm.data.datasets import Images
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.store import kept, served
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.pipeline.devices import check_devices
from rtm.pipeline.graph import NETWORKS, jobs
from rtm.pipeline.slurm import requeue
from rtm.training.loop import STOPPED, Run
from rtm.training.monitor import watch_of
from rtm.training.runs import Stopped, book_of, training
from rtm.training.unfinished import names_of, note, report_unfinished


def train_experiment(config: Config, layout: Layout, experiment: Experiment, seed: int) -> None:
    job, resources = jobs(config)[f"train/{experiment.name}/seed{seed}"], experiment.recipe.resources
    processes, is_part = resources.processes or resources.gpus, "RANK" in os.environ
    ledger = Ledger()
    if not is_part and ledger.fresh(job):  # Snakemake forces a job if it did not see its last attempt end
        print(f"{job.id} is finished; there is nothing to do.")
        return
    if not is_part and served(job):
        return
    use_gpus = check_devices(experiment.name, resources, job.outputs[0])
    if not is_part:
        report_unfinished(ledger, job)
    if processes > 1 and not is_part:
        stopped = _launch(processes, layout.run(experiment.name, ledger.fingerprint(job)))
    else:
        stopped = _join(config, layout, experiment, seed, job, use_gpus)
    if stopped and not is_part:
        if requeue():
            _wait_for_the_end()
        sys.exit(STOPPED)


def _launch(processes: int, folder: Path) -> bool:
    """Start the processes as torchrun does, with this command line and RANK set; return whether they were stopped.

    A stopped process exits with 0: at any other code torchrun would kill the rest, perhaps in the middle of a save.
    """
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        max_restarts=0,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        run_id=uuid.uuid4().hex,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "rtm.cli.main", *sys.argv[1:])
    except ChildFailedError:  # the process has printed the reason
        sys.exit(1)
    except SignalException:
        return True
    book = book_of(folder)
    return book is not None and book.slices[-1].ended == "stopped"


def _wait_for_the_end(seconds: float = 120) -> None:
    """SLURM ends a requeued job itself; a job that exits earlier would count as failed."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(seconds)


def _join(config: Config, layout: Layout, experiment: Experiment, seed: int, job: Job, use_gpus: bool) -> bool:
    """Train in this process, alone or with others; return whether it was stopped."""
    device = distributed.start(use_gpus)
    try:
        _train(config, layout, experiment, seed, job, device)
    except Stopped as stopped:
        if distributed.rank() == 0:
            print(f"rtm: {stopped}", file=sys.stderr)
        return True
    finally:
        distributed.stop()
    return False


def _train(config: Config, layout: Layout, experiment: Experiment, seed: int, job: Job, device: torch.device) -> None:
    setting = Setting(
        experiment, seed, Images(layout.images(experiment.dataset_name)), _weights(layout, experiment), device
    )
    if distributed.rank() != 0:  # the first process locks, saves and writes the receipt for all
        fingerprint = Ledger().fingerprint(job)
        folder = layout.run(experiment.name, fingerprint)
        Run(build_method(setting), setting, folder, names=names_of(folder, fingerprint)).train()
        return
    with kept(job) as recording:
        folder = layout.run(experiment.name, recording.fingerprint)
        gpus = experiment.recipe.resources.gpus
        with room(folder, _last_save(folder)), training(folder, experiment.name, seed, gpus) as check_owner:
            accepted = note(folder, recording)
            watch = watch_of(config, layout, setting)
            names = names_of(folder, recording.fingerprint)
            run = Run(build_method(setting), setting, folder, watch, check_owner, names)
            run.train()
            described = _described(experiment, seed, recording.fingerprint, setting.images.sha256)
            check_owner()
            run.export(layout.checkpoint(experiment.name, seed), layout.curve(experiment.name, seed), described)
        book = book_of(folder)
        assert book is not None
        recording.facts |= book.facts() | ({"accepted": accepted} if accepted else {})


def _last_save(folder: Path) -> int:
    """The size of the last save in bytes; the next one needs as much."""
    return max((file.stat().st_size for file in saved_states(folder) if file.exists()), default=0)


def _weights(layout: Layout, experiment: Experiment) -> Path | None:
    imle = experiment.recipe.imle
    return layout.weights(NETWORKS.get(imle.perceptual, imle.perceptual)) if imle else None


def _described(experiment: Experiment, seed: int, fingerprint: str, data: str) -> dict[str, Any]:
    """The description that goes into the metadata of a weights file."""
    return {
        "experiment": experiment.name,
        "seed": seed,
        "run": fingerprint,
        "data_sha256": data,
        "recipe": experiment.recipe.model_dump(mode="json"),
        "mapper": experiment.mapper.model_dump(mode="json"),
        "decoder": experiment.decoder and experiment.decoder.model_dump(mode="json"),
    }
