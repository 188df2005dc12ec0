"""The cost of a generated image: milliseconds and parameters (App. G)."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
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


def measure_latency(experiment: Experiment, checkpoint: Path) -> dict[str, Any]:
    """Milliseconds for an image: median over passes of the whole generator, divided by the batch (App. G)."""
    device = best_device()
    if device.type == "cpu":
        torch.set_num_threads(1)  # in such a small network, several threads mostly wait for each other
    generator = load_generator(experiment.architecture, checkpoint, device)
    depths = {variant: replace(depth, shuffled=False) for variant, depth in experiment.depths.items()}
    medians = _median_ms(generator, experiment, list(dict.fromkeys(depths.values())), device)
    times = {variant: medians[depth] for variant, depth in depths.items()}
    evaluation = experiment.recipe.evaluation
    return {
        "experiment": experiment.name,
        "batch": evaluation.latency_batch,
        "passes": evaluation.latency_passes,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU, one thread",
        "time_ms": times.pop("native"),
        "sweep": times,
        "mapper_parameters": parameters(generator.mapper),  # type: ignore[arg-type]
        "generator_parameters": parameters(generator),
    }


@torch.no_grad()
def _median_ms(
    generator: nn.Module,
    experiment: Experiment,
    depths: list[Depth],
    device: torch.device,
) -> dict[Depth, float]:
    """The median time for each depth. The depths take turns, so that other work on the machine slows all equally."""
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
    for _ in range(evaluation.latency_passes):
        for depth in depths:
            passes[depth].append(seconds(depth))
    medians = {depth: statistics.median(times) for depth, times in passes.items()}
    return {depth: round(1000 * median / len(index), 4) for depth, median in medians.items()}


def _wait(device: torch.device) -> None:
    """Wait for the GPU, which computes while Python goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize()
