"""Batches of a prepared dataset, as a training step gets them, against reading the raw array: images a second."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch

from benchmarks.measuring import DEVICE, Groups, alone, in_turn, random_images, show
from rtm.data.batches import batch_of
from rtm.data.datasets import Images

STEPS = 4


def rates(count: int, side: int, batch: int) -> dict[str, float]:
    """Images per second of each method; the array is in the page cache for all methods."""
    device = torch.device(DEVICE)
    with tempfile.TemporaryDirectory() as folder:
        path = random_images(Path(folder), count, side)
        held = Images(path)
        raw = np.load(path, mmap_mode="r")
        chosen = [batch_of(0, step, batch, count) for step in range(STEPS)]
        ways: dict[str, Callable[[int], object]] = {
            "raw array, in order": lambda step: raw[step * batch : (step + 1) * batch].copy(),
            "raw array, shuffled": lambda step: raw[chosen[step].numpy()],
            "sampler alone": lambda step: batch_of(0, step, batch, count),
            "loader: shuffled float batches": lambda step: held.batch(batch_of(0, step, batch, count), device),
        }
        times = in_turn({name: partial(_each, way) for name, way in ways.items()})
        return {name: STEPS * batch / time for name, time in times.items()}


def _each(way: Callable[[int], object]) -> None:
    for step in range(STEPS):
        way(step)


def measure() -> Groups:
    cifar = alone(rates, 50_000, 32, 256)
    afhq = alone(rates, 512, 512, 64)
    return {"CIFAR-10, batches of 256, images/s": cifar, "AFHQ at 512 px, batches of 64, images/s": afhq}


if __name__ == "__main__":
    show(measure())
