"""Precision, recall, density and coverage against the packages they replace: time, memory, and hard cases."""

import contextlib
import io

import numpy as np
import prdc as published
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]
from torch_fidelity.metric_prc import calculate_precision_recall_part

from benchmarks.measuring import Groups, added_megabytes, alone, inception_like, once, show
from rtm.metrics.prdc import prdc


def clusters(count: int, width: int, seed: int) -> NDArray[np.float32]:
    """Ten clusters with a spread of 1e-3 of their distance: most pairs of a cluster need float64."""
    rng = np.random.default_rng(seed)
    shared = np.random.default_rng(0)
    centres = shared.normal(size=(10, width))
    return (centres[rng.integers(0, 10, count)] + 1e-3 * rng.normal(size=(count, width))).astype(np.float32)


def products(real: torch.Tensor, fake: torch.Tensor, edge: int = 1000) -> None:
    """Only the matrix products, 4 N^2 D operations: both halves of the symmetric products, and real with fake."""
    blocks = [x.split(edge) for x in (real, fake)]
    for side in blocks:
        for number, first in enumerate(side):
            for second in side[number + 1 :]:
                first @ second.T
            half = len(first) // 2
            first @ first[:half].T
    for first in blocks[0]:
        for second in blocks[1]:
            first @ second.T


def precision_and_recall(count: int, width: int) -> dict[str, float]:
    torch.set_num_threads(1)
    real = inception_like(count, width, 1)
    fake = inception_like(count, width, 2)
    tight = clusters(count, width, 1), clusters(count, width, 2)
    tensors = torch.from_numpy(real), torch.from_numpy(fake)
    products(tensors[0][:2000], tensors[1][:2000])
    with threadpool_limits(1), contextlib.redirect_stdout(io.StringIO()):
        return {
            "bare matrix products": once(lambda: products(*tensors)),
            "prdc of rtm": once(lambda: prdc(real, fake, k=3, device="cpu")),
            "prdc of rtm, tight clusters": once(lambda: prdc(*tight, k=3, device="cpu")),
            "torch-fidelity": once(lambda: calculate_precision_recall_part(*tensors[::-1])),
            "prdc": once(lambda: published.compute_prdc(real, fake, nearest_k=3)),
        }


def added_by_prdc(count: int, width: int) -> float:
    real = inception_like(count, width, 1)
    fake = inception_like(count, width, 2)
    prdc(real[:1500], fake[:1500])
    return added_megabytes(lambda: prdc(real, fake, k=3))


def measure(count: int = 20_000, width: int = 2048, many: int = 50_000) -> Groups:
    size = f"{count} + {count} x {width}"
    times = alone(precision_and_recall, count, width)
    megabytes = alone(added_by_prdc, many, width)
    ours = times["prdc of rtm"]
    return {
        f"precision, recall, density, coverage, {size}, s": times,
        f"precision, recall, density, coverage, {many} + {many} x {width}, MB": {"beyond the features": megabytes},
        "precision and recall ratios": {
            "prdc / ours": times["prdc"] / ours,
            "torch-fidelity's precision and recall / ours": times["torch-fidelity"] / ours,
            "ours / bare products": ours / times["bare matrix products"],
            "tight clusters / ordinary features": times["prdc of rtm, tight clusters"] / ours,
        },
    }


if __name__ == "__main__":
    show(measure())
