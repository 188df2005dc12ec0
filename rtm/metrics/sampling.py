"""The images of a checkpoint that are measured."""

import math
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.config.architecture import Architecture
from rtm.config.parameters import Depth
from rtm.core.files import room
from rtm.core.progress import progress
from rtm.core.randomness import permutation, seed_of
from rtm.metrics.images import Pixels, Rows
from rtm.models.drawing import draw_batches, labels_of, latents


def evaluation_seed(seed: int) -> int:
    """The seed of the samples. It is the same for every experiment, so image i of baseline and RTM have equal noise."""
    return seed_of("evaluation", seed)


def mapper_inputs(generator: nn.Module, architecture: Architecture, seed: int, index: Tensor) -> Tensor:
    """The mapper's inputs for images `index`: z and, with classes, the embedding of the label beside it."""
    z = latents(seed, index, architecture.dim)
    labels = labels_of(seed, index, architecture.classes)
    if labels is None:
        return z
    return cast(Tensor, cast(Any, generator).mapping.conditioned(z, labels))


@dataclass(frozen=True)
class Samples:
    """The first images of a variant. All are drawn when one is read, into a file that vanishes with the process: they
    may not fit into memory."""

    generator: nn.Module
    experiment: Experiment
    seed: int  # of the training
    variant: str
    count: int
    folder: Path  # of the file

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, rows: Rows, /) -> Pixels:
        return self.pixels[rows]

    @property
    def depth(self) -> Depth:
        return self.experiment.depths[self.variant]

    @property
    def device(self) -> torch.device:
        return next(self.generator.parameters()).device

    @cached_property
    def pixels(self) -> NDArray[np.uint8]:
        evaluation = self.experiment.recipe.evaluation
        side = self.experiment.dataset.resolution
        whole = -(-self.count // evaluation.batch) * evaluation.batch  # another batch size would round differently
        drawn = min(whole, evaluation.samples)
        depth = {"H": self.steps} if self.depth.halting else self.depth.options()
        pixels = _on_disk(self.folder, (drawn, side, side, 3))
        first = 0
        title = f"sample {self.experiment.name} seed {self.seed} {self.variant}"
        with progress(title, drawn) as report:
            for images in draw_batches(
                self.generator,
                self.experiment.architecture,
                evaluation_seed(self.seed),
                drawn,
                evaluation.batch,
                self.device,
                **depth,
            ):
                last = first + len(images)
                pixels[first:last] = images.numpy()
                report(last)
                first = last
        return pixels[: self.count]

    @cached_property
    def steps(self) -> Tensor:
        """The steps of each image; if it halts, of all samples of the evaluation."""
        if self.depth.halting is None:
            return torch.full((self.count,), self.depth.H or 0, device=self.device)
        steps = self._halting_steps()
        if not self.depth.shuffled:
            return steps
        order = permutation(seed_of("shuffled", self.seed), len(steps))
        return steps[order.to(self.device)]

    @torch.no_grad()
    def _halting_steps(self) -> Tensor:
        """The steps after which each sample halts."""
        halting = self.depth.halting
        assert halting is not None
        evaluation = self.experiment.recipe.evaluation
        mapper = cast(Any, self.generator).mapper
        parts = []
        for index in torch.arange(evaluation.samples, device=self.device).split(evaluation.batch):
            z = mapper_inputs(self.generator, self.experiment.architecture, evaluation_seed(self.seed), index)
            parts.append(mapper.settle(z, halting.tolerance, halting.max)[1])
        return torch.cat(parts)


def _on_disk(folder: Path, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """An array in a file without a name, which vanishes with the array."""
    with room(folder, math.prod(shape)):  # a full disk would end the process without a word
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            return np.memmap(file, np.uint8, "w+", shape=shape)
