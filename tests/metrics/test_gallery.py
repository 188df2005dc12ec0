"""The gallery: the true neighbours of real queries, and strips with the right first and last images."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from support import PARAMS, checkpoints, smoke_workspace
from support.checkpoints import GAN, IMLE, MLP
from torch import nn

from rtm.config import Experiment, load
from rtm.metrics.digits import DigitsExtractor
from rtm.metrics.features import extract
from rtm.metrics.gallery import FRAMES, NEIGHBOURS, QUERIES, STRIPS, gallery
from rtm.metrics.sampling import evaluation_seed
from rtm.models.drawing import draw, latents

Shown = Mapping[str, NDArray[np.uint8]]
BOTH = ((IMLE, 0), (MLP, 1))


def written(folder: Path, chosen: Experiment, seed: int = 0) -> tuple[nn.Module, Shown]:
    """An untrained generator, and its gallery."""
    smoke_workspace.setting(folder, chosen)
    network = checkpoints.write(folder / "w.safetensors", chosen)
    protocol = load("smoke", PARAMS).params.protocols["paper"]
    weights = {"digit_classifier": folder / "classifier.safetensors"}
    return network, gallery(chosen, seed, folder / "w.safetensors", folder / "images.npy", protocol, weights)


def test_neighbours_are_the_nearest_of_all_samples_nearest_first(tmp_path: Path) -> None:
    chosen = smoke_workspace.experiment(IMLE)
    _, shown = written(tmp_path, chosen)
    assert shown["samples"].shape == (64, 8, 8, 3) == (chosen.recipe.evaluation.samples, 8, 8, 3)
    extractor = DigitsExtractor(tmp_path / "classifier.safetensors")
    asked, found = (extract(shown[name], extractor, 64, "cpu").features for name in ("queries", "samples"))
    order = np.square(asked[:, None].astype(float) - found[None]).sum(2).argsort(1)[:, :NEIGHBOURS]
    assert_array_equal(shown["neighbours"], shown["samples"][order])


def test_queries_are_training_images_and_the_same_for_every_experiment_and_seed(tmp_path: Path) -> None:
    (_, one), (_, other) = (written(tmp_path, smoke_workspace.experiment(name), seed) for name, seed in BOTH)
    queries = {image.tobytes() for image in one["queries"]}
    assert len(queries) == len(one["queries"]) == QUERIES
    assert queries <= {image.tobytes() for image in np.load(tmp_path / "images.npy")}
    assert_array_equal(one["queries"], other["queries"])
    assert not np.array_equal(one["samples"], other["samples"])


@pytest.mark.parametrize("name", [IMLE, GAN])
def test_a_strip_leads_from_a_sample_to_the_latent_of_the_next(tmp_path: Path, name: str) -> None:
    """All images of a strip have the spatial noise and the label of its first image."""
    chosen = smoke_workspace.experiment(name)
    network, shown = written(tmp_path, chosen)
    assert shown["slerp"].shape == (STRIPS, FRAMES, 8, 8, 3)
    seed = evaluation_seed(0)
    architecture = chosen.architecture
    for strip in range(STRIPS):
        index = torch.tensor([2 * strip])
        other = latents(seed, index + 1, architecture.dim)
        ends = draw(network, architecture, seed, index), draw(network, architecture, seed, index, z=other)
        for frame, end in zip(shown["slerp"][strip, [0, -1]], ends, strict=True):
            assert np.abs(frame.astype(int) - end[0].numpy().astype(int)).max() <= 1  # the batch size differs
    assert np.abs(shown["slerp"][:, 0].astype(int) - shown["samples"][: 2 * STRIPS : 2]).max() <= 1
