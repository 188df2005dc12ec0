"""A few steps of a training on blank images: how `rtm doctor --gpu`, `rtm plan` and `rtm try` know what it costs."""

import math
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rtm.config import Experiment
from rtm.data.datasets import Images
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.training.loop import Run, resident_bytes

STEPS = 10


class BlankImages(Images):
    """As many grey images as the dataset has. The speed does not depend on the content, and no file is needed."""

    def __init__(self, experiment: Experiment) -> None:
        dataset = experiment.dataset
        self.pixels = np.broadcast_to(np.uint8(128), (dataset.count, dataset.resolution, dataset.resolution, 3))
        self.labels = np.zeros(dataset.count, np.int64) if dataset.classes else None
        self.sha256 = ""

    def expect(self, *_: Any) -> None:
        """There is nothing to read ahead."""

    def batch(self, index: Tensor, device: torch.device) -> Tensor:
        side = self.pixels.shape[1]
        return torch.zeros(len(index), 3, side, side, device=device)


class Rehearsal:
    """A training that is ready to step. A matching round comes with every epoch, and has one chunk a process."""

    def __init__(self, experiment: Experiment, weights: Path | None, device: torch.device, folder: Path) -> None:
        self.experiment = experiment
        setting = Setting(experiment, 0, BlankImages(experiment), weights, device)
        self.method = build_method(setting)
        self.run = Run(self.method, setting, folder)

    def step(self, number: int) -> None:
        self.method.step(number)
        self.run.done = number + 1
        self.run._update_ema()

    def epoch_after(self, steps: int) -> int:
        """The first step of an epoch after the first `steps` steps; it begins with a matching round."""
        images = self.experiment.dataset.count
        batch = self.experiment.recipe.training.batch
        epoch = max(1, math.ceil(steps * batch / images))
        return math.ceil(epoch * images / batch)


@contextmanager
def rehearsing(
    experiment: Experiment, weights: Path | None, device: torch.device, world: int = 1
) -> Iterator[Rehearsal]:
    """The training of an experiment in one of `world` processes."""
    with tempfile.TemporaryDirectory() as folder:
        yield Rehearsal(_with_short_rounds(experiment, world), weights, device, Path(folder))


def _with_short_rounds(experiment: Experiment, world: int) -> Experiment:
    imle = experiment.recipe.imle
    if imle is None:
        return experiment
    pool = (imle.chunk * world - 0.5) / experiment.dataset.count
    short = imle.model_copy(update={"pool": pool, "refresh": 1, "stagger": False, "adaptive": None})
    return replace(experiment, recipe=experiment.recipe.model_copy(update={"imle": short}))


@dataclass(frozen=True)
class StepTimes:
    """The seconds of one process's work, and the most bytes that it had in use."""

    start: float  # until the first step is done, with compilation
    step: float
    chunk: float | None  # of a matching round; None without rounds
    peak: int


def time_steps(experiment: Experiment, weights: Path | None, device: torch.device, steps: int = STEPS) -> StepTimes:
    """Time some steps and, for RS-IMLE, a matching round of one chunk."""
    began = time.perf_counter()
    with rehearsing(experiment, weights, device) as rehearsal:

        def seconds(numbers: range) -> float:
            started = time.perf_counter()
            for number in numbers:
                rehearsal.step(number)
            if device.type == "cuda":
                torch.cuda.synchronize(device)
            return time.perf_counter() - started

        seconds(range(1))
        start = time.perf_counter() - began
        step = seconds(range(1, 1 + steps)) / steps
        chunk = None
        if experiment.recipe.imle:
            epoch = rehearsal.epoch_after(1 + steps)
            chunk = max(0.0, seconds(range(epoch, epoch + 1)) - step)
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else resident_bytes()
    return StepTimes(start, step, chunk, peak)


def share_of_a_process(experiment: Experiment) -> Experiment:
    """The experiment with the batch of one of its processes."""
    resources = experiment.recipe.resources
    training = experiment.recipe.training
    processes = resources.processes or resources.gpus or 1
    changed = training.model_copy(update={"batch": training.batch // processes})
    return replace(experiment, recipe=experiment.recipe.model_copy(update={"training": changed}))
