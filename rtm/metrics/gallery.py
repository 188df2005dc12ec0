"""The few images that figures show: samples, interpolations, and the nearest samples to real images."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from rtm.config import Experiment
from rtm.core.devices import best_device
from rtm.core.distances import nearest
from rtm.core.files import atomic
from rtm.core.randomness import permutation, seed_of
from rtm.data.datasets import Images
from rtm.metrics.features import Extractor, extract
from rtm.metrics.sampling import evaluation_seed
from rtm.models.drawing import draw, draw_many, latents, load_generator, slerp

SAMPLES = {32: 4096}  # largest resolution: number of samples that are still visible on one sheet (at most all)
FEW_SAMPLES = 64
POOL = 10_000  # neighbours are chosen from at most this many samples
QUERIES, NEIGHBOURS = 16, 8
STRIPS, FRAMES = 6, 15


def write_gallery(
    experiment: Experiment, checkpoint: Path, images: Images, extractor: Extractor, path: Path, seed: int
) -> None:
    device = best_device()
    generator = load_generator(experiment.architecture, checkpoint, device)
    resolution = experiment.dataset.resolution
    evaluation = experiment.recipe.evaluation
    most = next((number for side, number in SAMPLES.items() if resolution <= side), FEW_SAMPLES)
    shown = min(most, max(FEW_SAMPLES, evaluation.samples))
    number = max(shown, min(POOL, evaluation.samples))
    pool = draw_many(generator, experiment.architecture, evaluation_seed(seed), number, evaluation.batch, device)
    chosen = permutation(seed_of("queries"), len(images))[:QUERIES].numpy()
    queries = np.asarray(images.pixels[chosen])
    with atomic(path) as file:
        np.savez(
            file,
            samples=pool[:shown],
            slerp=_interpolated(generator, experiment, seed, device),
            queries=queries,
            neighbours=pool[_nearest(queries, pool[: evaluation.samples], extractor, device)],
        )


def _nearest(queries: np.ndarray, pool: np.ndarray, extractor: Extractor, device: torch.device) -> np.ndarray:
    asked, found = (extract(pixels, extractor, 64, device).features for pixels in (queries, pool))
    return nearest(asked, found, NEIGHBOURS)[1]


def _interpolated(generator: nn.Module, experiment: Experiment, seed: int, device: torch.device) -> np.ndarray:
    """SLERP between pairs of latents, with the spatial noise and the label of the first (App. H)."""
    seed, dim = evaluation_seed(seed), experiment.recipe.dim
    strips = []
    for strip in range(STRIPS):
        first, second = latents(seed, torch.tensor([2 * strip, 2 * strip + 1], device=device), dim)
        z = slerp(first, second, torch.linspace(0, 1, FRAMES, device=device))
        index = torch.full((FRAMES,), 2 * strip, device=device)
        strips.append(draw(generator, experiment.architecture, seed, index, z=z).cpu())
    return torch.stack(strips).numpy()
