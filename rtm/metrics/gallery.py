"""The few images that figures show: samples, interpolations, and the nearest samples to real images."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rtm.config import Experiment
from rtm.config.experiments import Protocol
from rtm.core.devices import best_device
from rtm.core.distances import nearest
from rtm.core.randomness import permutation, seed_of
from rtm.data.datasets import Images
from rtm.metrics.extractors import extractor_of
from rtm.metrics.features import extract
from rtm.metrics.images import Pixels
from rtm.metrics.sampling import evaluation_seed
from rtm.models.checkpoint import load_generator
from rtm.models.drawing import draw, draw_many, strip

VISIBLE = 4096  # samples that are still visible on one sheet (at most all), if they are small
SMALL = 32  # pixels
FEW_SAMPLES = 64
POOL = 10_000  # neighbours are chosen from at most this many samples
QUERIES = 16
NEIGHBOURS = 8
STRIPS = 6
FRAMES = 15


def gallery(
    experiment: Experiment,
    seed: int,  # of the training
    checkpoint: Path,
    images: Path,  # of the training set
    protocol: Protocol,  # its features for precision and recall decide what is near
    weights: Mapping[str, Path],
) -> dict[str, NDArray[np.uint8]]:
    """The arrays of the .npz file."""
    name = protocol.pr_extractor
    extractor = extractor_of(name, weights[name], protocol.resize)
    device = best_device()
    generator = load_generator(experiment.architecture, checkpoint, device)
    evaluation = experiment.recipe.evaluation
    most = VISIBLE if experiment.dataset.resolution <= SMALL else FEW_SAMPLES
    shown = min(most, max(FEW_SAMPLES, evaluation.samples))
    count = max(shown, min(POOL, evaluation.samples))
    pool = draw_many(generator, experiment.architecture, evaluation_seed(seed), count, evaluation.batch, device)
    training = Images(images)
    rows = permutation(seed_of("queries"), len(training))[:QUERIES].numpy()
    queries = np.asarray(training.pixels[rows])
    of_queries = extract(queries, extractor, 64, device).features
    of_pool = extract(pool[: evaluation.samples], extractor, 64, device).features
    neighbours = nearest(of_queries, of_pool, NEIGHBOURS)[1]
    return {
        "samples": pool[:shown],
        "slerp": _interpolations(generator, experiment, evaluation_seed(seed), device),
        "queries": queries,
        "neighbours": pool[neighbours],
    }


def _interpolations(
    generator: nn.Module,
    experiment: Experiment,
    seed: int,
    device: torch.device,
) -> Pixels:
    """SLERP between pairs of latents, with the spatial noise and the label of the first (App. H)."""
    strips = []
    for pair in range(STRIPS):
        index, z = strip(seed, 2 * pair, FRAMES, experiment.recipe.dim, device)
        strips.append(draw(generator, experiment.architecture, seed, index, z=z).cpu())
    return torch.stack(strips).numpy()
