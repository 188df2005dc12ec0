"""The cost of a generated image: milliseconds and parameters (App. G)."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from rtm.config import Experiment
from rtm.config.parameters import Depth
from rtm.core.devices import best_device
from rtm.models.drawing import labels_of, latents, load_generator, noise_of
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
    return {
        "experiment": experiment.name,
        "batch": experiment.recipe.evaluation.latency_batch,
        "passes": experiment.recipe.evaluation.latency_passes,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU, one thread",
        "time_ms": times.pop("native"),
        "sweep": times,
        "mapper_parameters": parameters(generator.mapper),  # type: ignore[arg-type]
        "generator_parameters": parameters(generator),
    }


@torch.no_grad()
def _median_ms(
    generator: nn.Module, experiment: Experiment, depths: list[Depth], device: torch.device
) -> dict[Depth, float]:
    """The median time for each depth. The depths take turns, so that other work on the machine slows all equally."""
    evaluation = experiment.recipe.evaluation
    index = torch.arange(evaluation.latency_batch, device=device)
    built = experiment.architecture
    z, labels = latents(0, index, built.dim), labels_of(0, index, built.classes)
    drawn = cache(noise_of(0, index))  # drawn once, because only the networks are timed, not the random numbers

    def noise(wanted: Sequence[tuple[int, ...]]) -> Sequence[torch.Tensor]:
        return drawn(tuple(wanted))

    def once(depth: Depth) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        generator(z, labels=labels, noise=noise, **depth.options())
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    for depth in depths * evaluation.latency_warmup:
        once(depth)
    passes = [[once(depth) for depth in depths] for _ in range(evaluation.latency_passes)]
    medians = map(statistics.median, zip(*passes, strict=True))
    return {depth: round(1000 * median / len(index), 4) for depth, median in zip(depths, medians, strict=True)}
