"""Generate the images of a checkpoint that are measured."""

from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from rtm.config import Experiment
from rtm.config.parameters import Depth
from rtm.core.devices import best_device
from rtm.core.files import atomic_folder
from rtm.core.progress import progress
from rtm.core.randomness import permutation, seed_of
from rtm.models.drawing import draw, labels_of, latents, load_generator


def evaluation_seed(seed: int) -> int:
    """The seed of the samples. It is the same for every experiment, so image i of baseline and RTM have equal noise."""
    return seed_of("evaluation", seed)


def mapper_inputs(generator: nn.Module, experiment: Experiment, seed: int, index: torch.Tensor) -> torch.Tensor:
    """The mapper's inputs for images `index`: z and, with classes, the embedding of the label beside it."""
    built = experiment.architecture
    z, labels = latents(seed, index, built.dim), labels_of(seed, index, built.classes)
    if labels is None:
        return z
    return cast(torch.Tensor, cast(Any, generator).mapping.conditioned(z, labels))


def write_samples(experiment: Experiment, checkpoint: Path, folder: Path, seed: int) -> None:
    """Write <variant>.npy for each variant, and <variant>.steps.npy if samples halt. The folder appears only when it is
    complete."""
    device = best_device()
    generator = load_generator(experiment.architecture, checkpoint, device)
    with atomic_folder(folder) as temporary:
        for variant in experiment.variants:
            _write_variant(generator, experiment, temporary / f"{variant}.npy", seed, variant, device)


def _write_variant(
    generator: nn.Module, experiment: Experiment, path: Path, seed: int, variant: str, device: torch.device
) -> None:
    evaluation, side = experiment.recipe.evaluation, experiment.dataset.resolution
    pixels = np.lib.format.open_memmap(path, "w+", np.uint8, (evaluation.samples, side, side, 3))
    depth = experiment.depths[variant]
    steps = _halted(generator, experiment, seed, depth, device) if depth.halting else None
    if steps is not None:
        np.save(path.with_suffix(".steps.npy"), steps.cpu().numpy())
    with progress(f"sample {experiment.name} seed {seed} {variant}", evaluation.samples) as report:
        for first in range(0, evaluation.samples, evaluation.batch):
            index = torch.arange(first, min(first + evaluation.batch, evaluation.samples), device=device)
            options = depth.options() if steps is None else {"H": steps[index]}
            drawn = draw(generator, experiment.architecture, evaluation_seed(seed), index, **options)
            pixels[first : first + len(index)] = drawn.cpu().numpy()
            report(first + len(index))
    pixels.flush()


@torch.no_grad()
def _halted(
    generator: nn.Module, experiment: Experiment, seed: int, depth: Depth, device: torch.device
) -> torch.Tensor:
    """The steps after which each sample halts (samples,). If shuffled, each sample gets the steps of another sample."""
    evaluation, settle = experiment.recipe.evaluation, cast(Any, generator.mapper).settle
    assert depth.halting is not None
    parts = []
    for index in torch.arange(evaluation.samples, device=device).split(evaluation.batch):
        z = mapper_inputs(generator, experiment, evaluation_seed(seed), index)
        parts.append(settle(z, depth.halting.tolerance, depth.halting.max)[1])
    steps = torch.cat(parts)
    return steps[permutation(seed_of("shuffled", seed), len(steps)).to(device)] if depth.shuffled else steps
