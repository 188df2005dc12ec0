"""One matching round against the bare matrix product, two searches by faiss, and torch.cdist."""

from collections.abc import Callable

import faiss
import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.measuring import DEVICE, Groups, added_megabytes, alone, now, show
from rtm.methods.imle.neighbours import Match

CHUNK = 1000


def features(n: int, d: int, seed: int) -> Tensor:
    """Unit vectors on a curved 12-dimensional surface. They resemble features of images more than uniform ones do."""
    surface = torch.Generator().manual_seed(0)
    first = torch.randn(12, 128, generator=surface)
    second = torch.randn(128, d, generator=surface)
    points = torch.randn(n, 12, generator=torch.Generator().manual_seed(seed))
    return F.normalize((points @ first / 3).tanh() @ second).to(DEVICE)


def rounds(n: int, m: int, d: int, epsilon: float) -> dict[str, float]:
    """Seconds of each method. They take turns chunk by chunk, so that other work on the machine slows all equally."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    data = features(n, d, 1)
    match = Match(data, epsilon)

    methods: dict[str, Callable[[Tensor, int], object]] = {
        "bare matrix product": lambda chunk, first: data @ chunk.T,
        "Match": match.update,
        "faiss.knn, both directions": lambda chunk, first: searches(data, chunk),
        "torch.cdist": lambda chunk, first: torch.cdist(data, chunk).min(1),
    }
    total = dict.fromkeys(methods, 0.0)
    for first in range(0, m, CHUNK):
        chunk = features(CHUNK, d, 2 + first)
        for name, method in methods.items():
            began = now()
            method(chunk, first)
            total[name] += now() - began
    return total


def searches(data: Tensor, chunk: Tensor) -> None:
    """The nearest data point of each sample, and the nearest sample of each data point, as one would ask faiss."""
    faiss.knn(chunk.numpy(), data.numpy(), 1)
    faiss.knn(data.numpy(), chunk.numpy(), 1)


def memory(
    method: str,
    n: int,
    m: int,
    d: int,
    epsilon: float,
) -> float:
    data = features(n, d, 1)
    torch.cdist(data[:100], data[:100]).min(1)

    def stream() -> None:
        match = Match(data, epsilon)
        for first in range(0, m, CHUNK):
            match.update(features(CHUNK, d, 2 + first), first)

    if method == "Match":
        return added_megabytes(stream)
    pool = features(m, d, 2)
    return added_megabytes(lambda: torch.cdist(data, pool).min(1))


def measure(n: int = 10_000, m: int = 100_000, d: int = 800, epsilon: float = 0.45) -> Groups:
    size = f"n = {n}, m = {m}, d = {d}"
    times = alone(rounds, n, m, d, epsilon)
    peaks = {name: alone(memory, name, n, m, d, epsilon) for name in ("Match", "torch.cdist")}
    exact = times["Match"]
    return {
        f"matching round, {size}, s": times,
        f"matching round, {size}, MB": peaks,
        "matching ratios": {
            "Match / bare product": exact / times["bare matrix product"],
            "two searches by faiss / Match": times["faiss.knn, both directions"] / exact,
            "cdist / Match": times["torch.cdist"] / exact,
            "memory, Match / cdist": peaks["Match"] / peaks["torch.cdist"],
        },
    }


if __name__ == "__main__":
    show(measure())
