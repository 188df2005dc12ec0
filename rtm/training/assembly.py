"""Run the training of one experiment: images, networks, method, lock, checkpoint and receipt."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from rtm.config import Config, Experiment
from rtm.config.architecture import FORMAT, VERSION
from rtm.core import distributed
from rtm.core.files import room
from rtm.core.layout import Layout, saved_states
from rtm.data.datasets import Images
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.store import kept
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.pipeline.graph import NETWORKS
from rtm.pipeline.runs import book_of, training
from rtm.pipeline.unfinished import names_of, note
from rtm.training.loop import Run
from rtm.training.monitor import watch_of


def train(config: Config, layout: Layout, experiment: Experiment, seed: int, job: Job, device: torch.device) -> None:
    """Train in one process. The first process locks the folder, saves, and writes the receipt for all processes."""
    setting = setting_of(layout, experiment, seed, device)
    if distributed.rank() != 0:
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
            described = metadata_of(experiment, seed, recording.fingerprint, setting.images.sha256)
            check_owner()
            run.export(layout.checkpoint(experiment.name, seed), layout.curve(experiment.name, seed), described)
        book = book_of(folder)
        assert book is not None
        parts = experiment.recipe.training.accumulate
        recording.facts |= book.facts() | ({"accepted": accepted} if accepted else {})
        recording.facts |= {"accumulated": parts} if parts > 1 else {}


def _last_save(folder: Path) -> int:
    """The size of the last save in bytes; the next save needs as much space."""
    return max((file.stat().st_size for file in saved_states(folder) if file.exists()), default=0)


def setting_of(layout: Layout, experiment: Experiment, seed: int, device: torch.device) -> Setting:
    images = Images(layout.images(experiment.dataset_name))
    return Setting(experiment, seed, images, weights_of(layout, experiment), device)


def weights_of(layout: Layout, experiment: Experiment) -> Path | None:
    space = experiment.recipe.imle and experiment.recipe.imle.perceptual
    return layout.weights(NETWORKS.get(space, space)) if isinstance(space, str) else None


def metadata_of(experiment: Experiment, seed: int, fingerprint: str, data: str) -> dict[str, Any]:
    """The metadata of a weights file: all that `rtm.load` needs, and where it comes from."""
    dataset = experiment.dataset.model_dump(include={"title", "licence", "citation", "class_names"}, mode="json")
    return {
        "format": FORMAT,
        "version": VERSION,
        "architecture": asdict(experiment.architecture),
        "dataset": {"name": experiment.dataset_name, "sha256": data, "count": experiment.dataset.count, **dataset},
        "experiment": experiment.name,
        "seed": seed,
        "run": fingerprint,
        "recipe": experiment.recipe.model_dump(mode="json"),
    }
