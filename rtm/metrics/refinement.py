"""Does a recursive mapper refine? Measure how far each step moves the state, whether more steps change the image, and
how much the recursion amplifies rounding. Part of the stage `evaluate`.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.core.devices import best_device
from rtm.core.distances import nearest
from rtm.core.randomness import permutation, seed_of
from rtm.metrics.features import FeatureSet
from rtm.metrics.sampling import evaluation_seed, mapper_inputs
from rtm.models.drawing import draw, load_generator
from rtm.models.layers import relative_change

LATENTS = 1024  # latents whose states are followed
EXACT = 256  # latents that are also computed in float64
IMAGES = 1000  # images that are compared with images after twice the steps
TAIL = 0.9  # the quantile that tables show beside the median
QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9, "p99": 0.99}
Curves = dict[str, dict[str, list[float]]]  # "z" or "w" -> quantile -> a number for each step from the second on


@dataclass(frozen=True)
class Refinement:
    """A generator with a recursive mapper, on the samples of its evaluation, followed for `limit` steps."""

    generator: nn.Module
    experiment: Experiment
    seed: int
    limit: int
    device: torch.device

    @classmethod
    def load(cls, experiment: Experiment, checkpoint: Path, seed: int) -> "Refinement":
        device, depths = best_device(), experiment.depths.values()
        limit = 2 * max(depth.halting.max if depth.halting else depth.H or 1 for depth in depths)
        return cls(load_generator(experiment.architecture, checkpoint, device), experiment, seed, limit, device)

    @cached_property
    def changes(self) -> dict[str, Tensor]:
        return changes(cast(Any, self.generator).mapper, self._inputs(LATENTS), self.limit)

    def curves(self) -> Curves:
        return {name: quantiles(rows) for name, rows in self.changes.items()}

    def measured(
        self, steps: Tensor, features: FeatureSet, look: Callable[[np.ndarray], FeatureSet]
    ) -> dict[str, float]:
        """The measurements of samples after `steps` (samples,). `features` are their features; `look` gives the
        features of other images."""
        steps = steps.to(self.device)
        last = (steps[:LATENTS].clamp(min=2) - 2)[None]
        moved = {f"{name}_change": rows[:, : last.shape[1]].gather(0, last) for name, rows in self.changes.items()}
        z = self._inputs(min(EXACT, len(steps)))
        amplified = amplification(cast(Any, self.generator).mapper, z, steps[: len(z)])
        number = min(IMAGES, len(steps))
        twice = look(self._images(2 * steps[:number]))
        return {
            "steps": float(steps.double().mean()),
            **{name: float(each.median()) for name, each in moved.items()},
            "z_tail": float(moved["z_change"].quantile(TAIL)),
            **agreement(features.first(number), twice),
            "rounding": float(amplified.median()),
            "rounding_tail": float(amplified.quantile(TAIL)),
        }

    def _inputs(self, number: int) -> Tensor:
        number = min(number, self.experiment.recipe.evaluation.samples)
        index = torch.arange(number, device=self.device)
        return mapper_inputs(self.generator, self.experiment, evaluation_seed(self.seed), index)

    def _images(self, steps: Tensor) -> np.ndarray:
        parts, built, batch = [], self.experiment.architecture, self.experiment.recipe.evaluation.batch
        # if all images have one depth, draw as the stage `sample` does, so that the bits are equal
        depth, alike = int(steps[0]), bool((steps == steps[0]).all())
        for index in torch.arange(len(steps), device=self.device).split(batch):
            drawn = draw(self.generator, built, evaluation_seed(self.seed), index, H=depth if alike else steps[index])
            parts.append(drawn.cpu())
        return torch.cat(parts).numpy()


@torch.no_grad()
def changes(mapper: Any, z: Tensor, steps: int) -> dict[str, Tensor]:
    """The relative change of Z_H and of w in each step from the second on: (steps - 1, latents)."""
    states = mapper.trajectory(z)
    before = next(states)
    rows: dict[str, list[Tensor]] = {"z": [], "w": []}
    for _ in range(steps - 1):
        after = next(states)
        rows["z"].append(relative_change(before, after, (0, 2)))
        rows["w"].append(relative_change(mapper.read(before), mapper.read(after), 1))
        before = after
    return {name: torch.stack(each).double() for name, each in rows.items()}


def quantiles(rows: Tensor) -> dict[str, list[float]]:
    """Quantiles over the latents, for each step."""
    shares = {name: rows.quantile(share, dim=1).tolist() for name, share in QUANTILES.items()}
    return {name: [round(value, 9) for value in values] for name, values in shares.items()}


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
    return float(spearmanr(steps[: len(fake)], nearest(fake, real, 1)[0][:, 0]).statistic)


def agreement(one: FeatureSet, other: FeatureSet) -> dict[str, float]:
    """Compare two sets of images of the same latents: the mean distance of their features, relative to the distance of
    unrelated images, and the share of images whose class changes."""
    a, b = (each.features.astype(np.float64) for each in (one, other))
    order = permutation(seed_of("unrelated"), len(a)).numpy()
    unrelated = np.linalg.norm(a[order] - a[np.roll(order, 1)], axis=1).mean()
    agreed = {"feature_change": float(np.linalg.norm(a - b, axis=1).mean() / max(unrelated, 1e-12))}
    if one.logits is not None and other.logits is not None:
        agreed["flips"] = float((one.logits.argmax(1) != other.logits.argmax(1)).mean())
    return agreed
