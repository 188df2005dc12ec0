"""Images from a checkpoint: the samples that are measured."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from rtm.config import Experiment
from rtm.core.devices import best_device
from rtm.core.files import atomic_folder
from rtm.core.progress import progress
from rtm.core.randomness import seed_of
from rtm.models.drawing import draw, load_generator


def inference_steps(variant: str) -> int | None:
    """H of a variant; None as trained."""
    return None if variant == "native" else int(variant.removeprefix("H"))


def evaluation_seed(seed: int) -> int:
    """The same for every experiment, so that image i of baseline and RTM share their noise."""
    return seed_of("evaluation", seed)


def write_samples(experiment: Experiment, checkpoint: Path, folder: Path, seed: int) -> None:
    """<variant>.npy for each variant in a folder that appears when it is complete."""
    device = best_device()
    generator = load_generator(experiment, checkpoint, device)
    with atomic_folder(folder) as temporary:
        for variant in experiment.variants:
            _write_variant(generator, experiment, temporary / f"{variant}.npy", seed, variant, device)


def _write_variant(
    generator: nn.Module, experiment: Experiment, path: Path, seed: int, variant: str, device: torch.device
) -> None:
    evaluation, side = experiment.recipe.evaluation, experiment.dataset.resolution
    pixels = np.lib.format.open_memmap(path, "w+", np.uint8, (evaluation.samples, side, side, 3))
    with progress(f"sample {experiment.name} seed {seed} {variant}", evaluation.samples) as report:
        for first in range(0, evaluation.samples, evaluation.batch):
            index = torch.arange(first, min(first + evaluation.batch, evaluation.samples), device=device)
            drawn = draw(generator, experiment, evaluation_seed(seed), index, inference_steps(variant))
            pixels[first : first + len(index)] = drawn.cpu().numpy()
            report(first + len(index))
    pixels.flush()
