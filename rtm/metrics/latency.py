"""The cost of a generated image: milliseconds and parameters (App. G).

Other work on the machine makes all times longer. So a disturbed measurement is repeated, and marked if it stays so.
"""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.config.parameters import Depth
from rtm.core.devices import best_device
from rtm.models.checkpoint import load_generator
from rtm.models.drawing import labels_of, latents, noise_of
from rtm.models.layers import parameters

ATTEMPTS = 3
WIDEST = 1 / 3  # spread of an undisturbed measurement: the distance of the quartiles as a share of the median


@dataclass(frozen=True)
class Timing:
    """The seconds of all passes at each depth."""

    passes: dict[Depth, list[float]]
    load: float  # of the machine, for each core
    images: int  # of a pass

    def milliseconds(self, depth: Depth) -> tuple[float, float, float]:
        """Of an image: the quartiles, with the median in the middle."""
        times = self.passes[depth]
        low, _, high = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else times * 3
        quartiles = (low, statistics.median(times), high)
        low, median, high = (round(1000 * seconds / self.images, 4) for seconds in quartiles)
        return low, median, high

    @property
    def spread(self) -> float:
        """The largest one of all depths."""
        spreads = []
        for depth in self.passes:
            low, median, high = self.milliseconds(depth)
            spreads.append((high - low) / max(median, 1e-12))
        return max(spreads)

    @property
    def is_disturbed(self) -> bool:
        return self.spread > WIDEST or self.load > 1


def measure_latency(experiment: Experiment, checkpoint: Path) -> dict[str, Any]:
    """Milliseconds for an image: median over passes of the whole generator, divided by the batch (App. G)."""
    device = best_device()
    if device.type == "cpu":
        torch.set_num_threads(1)  # in such a small network, several threads mostly wait for each other
    generator = load_generator(experiment.architecture, checkpoint, device)
    depths = {variant: replace(depth, shuffled=False) for variant, depth in experiment.depths.items()}
    timing, attempts = calmest(lambda: _timed(generator, experiment, list(dict.fromkeys(depths.values())), device))
    quartiles = {variant: timing.milliseconds(depth) for variant, depth in depths.items()}
    times = {variant: median for variant, (_, median, _) in quartiles.items()}
    evaluation = experiment.recipe.evaluation
    return {
        "experiment": experiment.name,
        "batch": evaluation.latency_batch,
        "passes": evaluation.latency_passes,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU, one thread",
        "time_ms": times.pop("native"),
        "sweep": times,
        "quartiles_ms": {variant: [low, high] for variant, (low, _, high) in quartiles.items()},
        "load": round(timing.load, 2),
        "attempts": attempts,
        "disturbed": timing.is_disturbed,
        "mapper_parameters": parameters(generator.mapper),  # type: ignore[arg-type]
        "generator_parameters": parameters(generator),
    }


def calmest(measure: Callable[[], Timing]) -> tuple[Timing, int]:
    """The first measurement that was not disturbed, or the one with the least spread; and the number of attempts."""
    timings: list[Timing] = []
    while len(timings) < ATTEMPTS:
        timings.append(measure())
        if not timings[-1].is_disturbed:
            return timings[-1], len(timings)
    return min(timings, key=lambda timing: timing.spread), len(timings)


@torch.no_grad()
def _timed(
    generator: nn.Module,
    experiment: Experiment,
    depths: list[Depth],
    device: torch.device,
) -> Timing:
    """Time all depths. They take turns, so that other work on the machine slows all equally."""
    evaluation = experiment.recipe.evaluation
    architecture = experiment.architecture
    index = torch.arange(evaluation.latency_batch, device=device)
    z = latents(0, index, architecture.dim)
    labels = labels_of(0, index, architecture.classes)
    maps = cache(noise_of(0, index))  # drawn once, because only the networks are timed, not the random numbers

    def noise(wanted: Sequence[tuple[int, ...]]) -> Sequence[Tensor]:
        return maps(tuple(wanted))

    def seconds(depth: Depth) -> float:
        _wait(device)
        start = time.perf_counter()
        generator(z, labels=labels, noise=noise, **depth.options())
        _wait(device)
        return time.perf_counter() - start

    for depth in depths * evaluation.latency_warmup:
        seconds(depth)
    passes: dict[Depth, list[float]] = {depth: [] for depth in depths}
    before = os.getloadavg()[0]
    for _ in range(evaluation.latency_passes):
        for depth in depths:
            passes[depth].append(seconds(depth))
    load = max(before, os.getloadavg()[0]) / (os.cpu_count() or 1)
    return Timing(passes, load, len(index))


def _wait(device: torch.device) -> None:
    """Wait for the GPU, which computes while Python goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize()
