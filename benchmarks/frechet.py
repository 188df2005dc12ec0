"""The Fréchet distance from features against torch-fidelity, torchmetrics and scipy's square root of a matrix.

The sizes are those of the protocols: few training images and many samples, few and few, many and many. `frechet_many`
measures 50,000 and 50,000. torchmetrics is not a dependency; it is measured only if it is installed.
"""

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from unittest.mock import patch

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch_fidelity.metric_fid import KEY_METRIC_FID, fid_features_to_statistics, fid_statistics_to_metric

from benchmarks.measuring import Groups, alone, in_turn, inception_like, show
from rtm.metrics import fid
from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.uncertainty import frechet_error

Features = NDArray[np.float32]
REGIMES = ((100, 5000), (1000, 1000), (5000, 5000))
OURS = "frechet_distance"
THEIRS = "torch-fidelity"
METRICS = "torchmetrics"
SQRTM = "scipy.linalg.sqrtm"
ROOT = "frechet_distance by a root of the covariance"
KNOWN = "frechet_distance, real Statistics at hand"
ERROR = "its standard error, real Statistics at hand"
MOST = 15.0  # digits of float64 that two programs can have in common


def by_torch_fidelity(real: Features, fake: Features) -> float:
    statistics = [fid_features_to_statistics(torch.from_numpy(x)) for x in (real, fake)]
    return float(fid_statistics_to_metric(*statistics, verbose=False)[KEY_METRIC_FID])


def by_torchmetrics(real: Features, fake: Features) -> float:
    """torchmetrics' distance, from features in pieces of 1,000 instead of images. Its result is float32."""
    given = torch.nn.Identity()
    given.num_features = real.shape[1]
    metric = import_module("torchmetrics.image.fid").FrechetInceptionDistance(given)
    for features, is_real in ((real, True), (fake, False)):
        for piece in torch.from_numpy(features).split(1000):
            metric.update(piece, real=is_real)
    return float(metric.compute())


def by_sqrtm(real: Features, fake: Features) -> float:
    first, second = (np.cov(x, rowvar=False, dtype=np.float64) for x in (real, fake))
    apart = real.mean(axis=0, dtype=np.float64) - fake.mean(axis=0, dtype=np.float64)
    root = np.trace(scipy.linalg.sqrtm(first @ second)).real
    return float(apart @ apart + np.trace(first) + np.trace(second) - 2 * root)


def by_root(real: Features, fake: Features) -> float:
    with patch.object(fid, "_few", lambda *_: False):
        return frechet_distance(real, fake)


def programs(real: Features, fake: Features) -> dict[str, Callable[[], float]]:
    known = Statistics.of(real)
    assert known.trace > 0
    assert known.factor.size  # compute both here, once
    found: dict[str, Callable[[], float]] = {
        OURS: partial(frechet_distance, real, fake),
        KNOWN: lambda: frechet_distance(known, fake),
        ERROR: lambda: frechet_error(known, Statistics.of(fake)),
        THEIRS: partial(by_torch_fidelity, real, fake),
        SQRTM: partial(by_sqrtm, real, fake),
    }
    if find_spec("torchmetrics"):
        found[METRICS] = partial(by_torchmetrics, real, fake)
    if min(len(real), len(fake)) < real.shape[1]:
        found[ROOT] = partial(by_root, real, fake)
    return found


def frechet(
    reals: int,
    fakes: int,
    width: int,
    repeats: int,
) -> tuple[dict[str, float], dict[str, float]]:
    """The seconds of each program, and the number of digits in which its distance agrees with ours."""
    values: dict[str, float] = {}

    def noted(name: str, program: Callable[[], float]) -> None:
        values[name] = program()

    real = inception_like(reals, width, 1)
    fake = inception_like(fakes, width, 2)
    with threadpool_limits(1), np.errstate(all="ignore"):
        in_turn(programs(real[:90, :64], fake[:90, :64]), 1)  # a small call first, so that everything is loaded
        turns = {name: partial(noted, name, program) for name, program in programs(real, fake).items()}
        times = in_turn(turns, repeats, warm_up=False)
    return times, {name: digits(values[name], values[OURS]) for name in (THEIRS, METRICS, SQRTM) if name in values}


def digits(one: float, other: float) -> float:
    with np.errstate(divide="ignore"):
        return float(min(MOST, -np.log10(abs(one - other) / abs(other)))) if np.isfinite(one) else 0.0


def measure(width: int = 2048, repeats: int = 1, regimes: Sequence[tuple[int, int]] = REGIMES) -> Groups:
    if not find_spec("torchmetrics"):
        print("torchmetrics is not compared: it is not installed (`pip install torchmetrics`).", file=sys.stderr)
    groups = Groups()
    ratios = dict[str, float]()
    agreed = dict[str, float]()
    for reals, fakes in regimes:
        times, same = alone(frechet, reals, fakes, width, repeats)
        groups[f"Fréchet distance, {reals} + {fakes} x {width}, s"] = times
        compared = [name for name in (THEIRS, METRICS, SQRTM, ROOT) if name in times]
        ratios |= {f"{reals} against {fakes}: {name} / ours": times[name] / times[OURS] for name in compared}
        agreed |= {f"{reals} against {fakes}: {name}": value for name, value in same.items()}
    return groups | {"Fréchet distance ratios": ratios, "Fréchet distance, digits in common with ours": agreed}


if __name__ == "__main__":
    show(measure())
