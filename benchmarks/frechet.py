"""The Fréchet distance from features against torch-fidelity, torchmetrics' formula and scipy's square root of a matrix.

In all regimes of the protocols: few training images against many samples, few against few, and many against many.
"""

from unittest.mock import patch

import numpy as np
import scipy.linalg
import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric

from benchmarks.measuring import Groups, alone, in_turn, inception_like, show
from rtm.metrics import fid, frechet_distance
from rtm.metrics.fid import Statistics
from rtm.metrics.uncertainty import frechet_error

REGIMES = ((100, 5000), (1000, 1000), (5000, 5000), (50_000, 50_000))
OURS, THEIRS, EIGENVALUES = "frechet_distance", "torch-fidelity", "eigenvalues of S1 S2, as torchmetrics"
SQRTM, ROOT = "covariances and scipy.linalg.sqrtm", "frechet_distance by a root of the covariance"
KNOWN, ERROR = "frechet_distance, real Statistics at hand", "its standard error, real Statistics at hand"


def frechet(reals: int, fakes: int, width: int, repeats: int) -> dict[str, float]:
    real, fake = inception_like(reals, width, 1), inception_like(fakes, width, 2)
    known = Statistics.of(real)

    def by_torch_fidelity() -> None:
        statistics = [fid_features_to_statistics(torch.from_numpy(x)) for x in (real, fake)]
        fid_statistics_to_metric(*statistics, verbose=False)

    def covariances() -> list[torch.Tensor]:
        return [torch.from_numpy(x).double().T.cov() for x in (real, fake)]

    def by_eigenvalues() -> None:
        first, second = covariances()
        torch.linalg.eigvals(first @ second).sqrt().real.sum()

    def by_sqrtm() -> None:
        first, second = covariances()
        scipy.linalg.sqrtm((first @ second).numpy())

    def by_root() -> None:
        with patch.object(fid, "_few", lambda *_: False):
            frechet_distance(real, fake)

    variants = {
        OURS: lambda: frechet_distance(real, fake),
        KNOWN: lambda: frechet_distance(known, fake),
        ERROR: lambda: frechet_error(known, Statistics.of(fake)),
        THEIRS: by_torch_fidelity,
        EIGENVALUES: by_eigenvalues,
        SQRTM: by_sqrtm,
    }
    with threadpool_limits(1), np.errstate(all="ignore"):
        return in_turn(variants | ({ROOT: by_root} if min(reals, fakes) < width else {}), repeats)


def measure(width: int = 2048, repeats: int = 3) -> Groups:
    times = {sizes: alone(frechet, *sizes, width, 1 if max(sizes) > 5000 else repeats) for sizes in REGIMES}
    groups = {f"Fréchet distance, {a} + {b} x {width}, s": found for (a, b), found in times.items()}
    ratios = {
        f"{a} against {b}: {name} / ours": found[name] / found[OURS]
        for (a, b), found in times.items()
        for name in (THEIRS, EIGENVALUES, SQRTM, ROOT)
        if name in found
    }
    return groups | {"Fréchet distance ratios": ratios}


if __name__ == "__main__":
    show(measure())
