"""The Fréchet distance from features against torch-fidelity and scipy's square root of a matrix."""

from unittest.mock import patch

import numpy as np
import scipy.linalg
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric

from benchmarks.measuring import Groups, alone, in_turn, inception_like, show
from rtm.metrics import fid, frechet_distance
from rtm.metrics.fid import Statistics

OURS, THEIRS, SQRTM = "frechet_distance", "torch-fidelity", "covariances and scipy.linalg.sqrtm"
BY_ROOT = "frechet_distance by a root of the covariance"
KNOWN, TRACE, ROOT = "frechet_distance, real Statistics at hand", "both Statistics at hand", "scipy.linalg.sqrtm alone"


def frechet(count: int, width: int, repeats: int) -> dict[str, float]:
    real, fake = inception_like(count, width, 1), inception_like(count, width, 2)
    known, other = Statistics.of(real), Statistics.of(fake)
    covariances = [np.cov(x, rowvar=False) for x in (real, fake)]

    def by_torch_fidelity() -> None:
        statistics = [fid_features_to_statistics(torch.from_numpy(x)) for x in (real, fake)]
        fid_statistics_to_metric(*statistics, verbose=False)

    def root() -> None:
        scipy.linalg.sqrtm(covariances[0] @ covariances[1])

    def by_sqrtm() -> None:
        covariances[:] = [np.cov(x, rowvar=False) for x in (real, fake)]
        root()

    with threadpool_limits(1):
        return in_turn(
            {
                OURS: lambda: frechet_distance(real, fake),
                KNOWN: lambda: frechet_distance(known, fake),
                TRACE: lambda: frechet_distance(known, other),
                THEIRS: by_torch_fidelity,
                SQRTM: by_sqrtm,
                ROOT: root,
            },
            repeats,
        )


def few_shot(real_count: int, fake_count: int, width: int, repeats: int) -> dict[str, float]:
    """A training set of few images, as in the few-shot experiments, against as many samples as a protocol asks for."""
    real, fake = inception_like(real_count, width, 1), inception_like(fake_count, width, 2)

    def by_root() -> None:
        with patch.object(fid, "_few", lambda *_: False):
            frechet_distance(real, fake)

    with threadpool_limits(1):
        return in_turn({OURS: lambda: frechet_distance(real, fake), BY_ROOT: by_root}, repeats)


def measure(width: int = 2048, repeats: int = 3) -> Groups:
    many, few = alone(frechet, 5000, width, repeats), alone(frechet, 1000, width, repeats)
    shot = alone(few_shot, 100, 5000, width, repeats)
    return {
        f"Fréchet distance, 5000 + 5000 x {width}, s": many,
        f"Fréchet distance, 1000 + 1000 x {width}, s": few,
        f"Fréchet distance, 100 + 5000 x {width}, s": shot,
        "Fréchet distance ratios": {
            "N = 5000, sqrtm / ours": many[SQRTM] / many[OURS],
            "N = 5000, sqrtm / ours, real Statistics at hand": many[SQRTM] / many[KNOWN],
            "N = 5000, sqrtm alone / ours, both Statistics at hand": many[ROOT] / many[TRACE],
            "N = 5000, torch-fidelity / ours": many[THEIRS] / many[OURS],
            "N = 1000, torch-fidelity / ours": few[THEIRS] / few[OURS],
            "N = 100 against 5000, by a root / ours": shot[BY_ROOT] / shot[OURS],
        },
    }


if __name__ == "__main__":
    show(measure())
