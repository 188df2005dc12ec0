"""Does a recursive mapper refine? Measure how far each step moves the state, whether more steps change the image, and
how much the recursion amplifies rounding. Part of the stage `evaluate`.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.core.distances import nearest
from rtm.core.randomness import permutation, seed_of
from rtm.metrics.features import FeatureSet
from rtm.metrics.sampling import evaluation_seed, mapper_inputs
from rtm.models.drawing import draw_many
from rtm.models.layers import relative_change

LATENTS = 1024  # latents whose states are followed
EXACT = 256  # latents that are also computed in float64
IMAGES = 1000  # images that are compared with images after twice the steps
TAIL = 0.9  # the quantile that tables show beside the median
QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9, "p99": 0.99}
Curves = dict[str, dict[str, list[float]]]  # "z" or "w" -> quantile -> a number for each step from the second on


@dataclass(frozen=True)
class Refinement:
    """A generator with a recursive mapper, on the samples of its evaluation."""

    generator: nn.Module
    experiment: Experiment
    seed: int

    @cached_property
    def changes(self) -> dict[str, Tensor]:
        """The changes in twice as many steps as the deepest variant has."""
        depths = self.experiment.depths.values()
        limits = [depth.halting.max if depth.halting else depth.H or 1 for depth in depths]
        return changes(self._mapper, self._inputs(LATENTS), 2 * max(limits))

    def curves(self) -> Curves:
        return {name: quantiles(rows) for name, rows in self.changes.items()}

    def metrics(
        self,
        steps: Tensor,  # of each sample
        features: FeatureSet,  # of the samples
        look: Callable[[np.ndarray], FeatureSet],  # gives the features of other images
    ) -> dict[str, float]:
        """The measurements of one variant."""
        last = (steps[:LATENTS].clamp(min=2) - 2)[None]
        latents = last.shape[1]
        moved = {name: rows[:, :latents].gather(0, last) for name, rows in self.changes.items()}
        z = self._inputs(min(EXACT, len(steps)))
        amplified = amplification(self._mapper, z, steps[: len(z)])
        count = min(IMAGES, len(features))
        twice = look(self._images(2 * steps[:count]))
        return {
            "steps": float(steps.double().mean()),
            "z_change": float(moved["z"].median()),
            "w_change": float(moved["w"].median()),
            "z_tail": float(moved["z"].quantile(TAIL)),
            **agreement(features.first(count), twice),
            "rounding": float(amplified.median()),
            "rounding_tail": float(amplified.quantile(TAIL)),
        }

    @property
    def _mapper(self) -> Any:
        return cast(Any, self.generator).mapper

    @property
    def _device(self) -> torch.device:
        return next(self.generator.parameters()).device

    def _inputs(self, count: int) -> Tensor:
        count = min(count, self.experiment.recipe.evaluation.samples)
        index = torch.arange(count, device=self._device)
        return mapper_inputs(self.generator, self.experiment.architecture, evaluation_seed(self.seed), index)

    def _images(self, steps: Tensor) -> np.ndarray:
        """The first images after these steps."""
        # if all images have one depth, draw as for samples of this depth, so that the bits are equal
        alike = bool((steps == steps[0]).all())
        return draw_many(
            self.generator,
            self.experiment.architecture,
            evaluation_seed(self.seed),
            len(steps),
            self.experiment.recipe.evaluation.batch,
            self._device,
            H=int(steps[0]) if alike else steps,
        )


@torch.no_grad()
def changes(mapper: Any, z: Tensor, steps: int) -> dict[str, Tensor]:
    """The relative change of Z_H and of w in each step from the second on: (steps - 1, latents)."""
    states = mapper.trajectory(z)
    before = next(states)
    of_z = []
    of_w = []
    for _ in range(steps - 1):
        after = next(states)
        of_z.append(relative_change(before, after, (0, 2)))
        of_w.append(relative_change(mapper.read(before), mapper.read(after), 1))
        before = after
    return {"z": torch.stack(of_z).double(), "w": torch.stack(of_w).double()}


def quantiles(rows: Tensor) -> dict[str, list[float]]:
    """Quantiles over the latents, for each step."""
    curves = {}
    for name, share in QUANTILES.items():
        values: list[float] = rows.quantile(share, dim=1).tolist()
        curves[name] = [round(value, 9) for value in values]
    return curves


@torch.no_grad()
def amplification(mapper: Any, z: Tensor, H: int | Tensor) -> Tensor:
    """The relative error of w in float32, compared with float64, in units of one rounding: (latents,)."""
    exact = deepcopy(mapper).double()(z.double(), H=H)
    return relative_change(mapper(z, H=H).double(), exact, 1) / 2**-24


def hardness(steps: np.ndarray, fake: np.ndarray, real: np.ndarray) -> float:
    """Do hard images get more steps? The rank correlation of the steps with the distance to the nearest real image in
    feature space; 0 if all images have the same number of steps."""
    if (steps == steps[0]).all():
        return 0.0
    distances = nearest(fake, real, 1)[0][:, 0]
    return float(spearmanr(steps[: len(fake)], distances).statistic)


def agreement(one: FeatureSet, other: FeatureSet) -> dict[str, float]:
    """Compare two sets of images of the same latents: the mean distance of their features, relative to the distance of
    unrelated images, and the share of images whose class changes."""
    a = one.features.astype(np.float64)
    b = other.features.astype(np.float64)
    order = permutation(seed_of("unrelated"), len(a)).numpy()
    others = a[np.roll(order, 1)]
    unrelated = np.linalg.norm(a[order] - others, axis=1).mean()
    moved = np.linalg.norm(a - b, axis=1).mean()
    agreed = {"feature_change": float(moved / max(unrelated, 1e-12))}
    if one.logits is not None and other.logits is not None:
        flips = one.logits.argmax(1) != other.logits.argmax(1)
        agreed["flips"] = float(flips.mean())
    return agreed
