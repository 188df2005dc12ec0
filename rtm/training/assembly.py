"""One training in one process: images, networks, method, lock, checkpoint and curve."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from rtm.config import Experiment
from rtm.config.architecture import FORMAT, VERSION
from rtm.core import distributed
from rtm.core.files import room
from rtm.data.datasets import Images
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.training.folder import locked, saved_states
from rtm.training.loop import Run, Watch

WatchOf = Callable[[Setting], Watch]


@dataclass(frozen=True)
class TrainingTask:
    """What is trained, from which files, and where its results go."""

    experiment: Experiment
    seed: int
    images: Path
    weights: Path | None  # of the frozen network whose features the method uses
    watch: WatchOf | None  # what is measured on the way
    folder: Path  # of the run: its state, log and grids
    checkpoint: Path
    curve: Path
    fingerprint: str  # of all that it is made from, for the checkpoint

    def setting(self, device: torch.device) -> Setting:
        return Setting(self.experiment, self.seed, Images(self.images), self.weights, device)

    def description(self, data: str) -> dict[str, Any]:
        """The metadata of the checkpoint: all that `rtm.load` needs, and where it comes from."""
        dataset = self.experiment.dataset
        about = dataset.model_dump(include={"title", "licence", "citation", "class_names"}, mode="json")
        return {
            "format": FORMAT,
            "version": VERSION,
            "architecture": asdict(self.experiment.architecture),
            "dataset": {"name": self.experiment.dataset_name, "sha256": data, "count": dataset.count, **about},
            "experiment": self.experiment.name,
            "seed": self.seed,
            "run": self.fingerprint,
            "recipe": self.experiment.recipe.model_dump(mode="json"),
        }


def train(training: TrainingTask, device: torch.device) -> None:
    """Train in this process. The first process locks the folder, saves, and writes the results for all processes."""
    setting = training.setting(device)
    folder = training.folder
    if distributed.rank() != 0:
        Run(build_method(setting), setting, folder).train()
        return
    gpus = training.experiment.recipe.resources.gpus
    with room(folder, _last_save(folder)), locked(folder, training.experiment.name, training.seed, gpus) as check_owner:
        watch = training.watch(setting) if training.watch else None
        run = Run(build_method(setting), setting, folder, watch, check_owner)
        run.train()
        check_owner()
        run.export(training.checkpoint, training.curve, training.description(setting.images.sha256))


def _last_save(folder: Path) -> int:
    """The size of the last save in bytes; the next save needs as much space."""
    return max((file.stat().st_size for file in saved_states(folder) if file.exists()), default=0)
