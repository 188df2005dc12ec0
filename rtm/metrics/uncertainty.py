"""How far a metric would move with other images: bootstrap intervals from the features that gave the metric."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rtm.core.errors import UserError
from rtm.core.progress import track
from rtm.metrics.features import FeatureSet
from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.inception_score import inception_score
from rtm.metrics.prdc import Membership

FEWEST = 40  # resamples: with fewer the 2.5th percentile would be the smallest of them
Interval = tuple[float, float]
Draw = Callable[[NDArray[np.int64]], float]  # indices with repetition to a metric


def check_resamples(resamples: int) -> None:
    if resamples and resamples < FEWEST:
        raise UserError(f"Intervals from {resamples} resamples are too rough; ask for {FEWEST} or more (--bootstrap).")


def bootstrap(
    value: float,  # the metric itself
    draw: Draw,
    count: int,  # images to draw from
    resamples: int,
    level: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentiles of the resampled metric about its own mean, moved to the value.

    Images drawn twice make a sample poorer, which raises FID by itself; the mean takes that shift away.
    """
    random = np.random.Generator(np.random.Philox(seed))
    drawn = np.array([draw(random.integers(count, size=count)) for _ in range(resamples)])
    low, high = np.quantile(drawn - drawn.mean(), [(1 - level) / 2, (1 + level) / 2])
    return value + float(low), value + float(high)


def intervals(
    metrics: dict[str, float],
    quality: FeatureSet,  # of the generated images
    reference: Statistics,
    members: Membership,
    splits: int,
    resamples: int,
) -> dict[str, Interval]:
    """An interval for each metric; the reference, and the radii of all balls, stay as they are."""
    inside = members.balls > 0
    logits = quality.logits
    draws: dict[str, tuple[Draw, int]] = {
        "fid": (lambda index: frechet_distance(reference, quality.features[index]), len(quality)),
        "precision": (lambda index: float(inside[index].mean()), len(inside)),
        "density": (lambda index: float(members.balls[index].mean() / members.k), len(inside)),
        "recall": (lambda index: float(members.recalled[index].mean()), len(members.recalled)),
        "coverage": (lambda index: float(members.covered[index].mean()), len(members.covered)),
    }
    if logits is not None:
        draws["is"] = (lambda index: inception_score(logits[index], splits, None)[0], len(quality))
    shown = track(draws.items(), "bootstrap", len(draws))
    return {name: bootstrap(metrics[name], draw, count, resamples) for name, (draw, count) in shown}
