"""Samples are the images of their seed, whatever the batch, and use the mapper's real input."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from support import checkpoints, smoke_workspace
from support.checkpoints import GAN, IMLE, MLP

from rtm.config import Experiment
from rtm.config.experiments import Halting
from rtm.metrics.sampling import Samples, evaluation_seed, mapper_inputs
from rtm.models.checkpoint import load_generator
from rtm.models.drawing import draw_many, labels_of, latents

CPU = torch.device("cpu")


def in_batches(name: str, samples: int, batch: int) -> Experiment:
    chosen = smoke_workspace.experiment(name)
    evaluation = chosen.recipe.evaluation.model_copy(update={"samples": samples, "batch": batch})
    return replace(chosen, recipe=chosen.recipe.model_copy(update={"evaluation": evaluation}))


@pytest.mark.parametrize("name", [IMLE, GAN])
def test_samples_are_the_images_of_their_seed_in_any_batch(tmp_path: Path, name: str) -> None:
    chosen = in_batches(name, 20, 7)
    network = checkpoints.write(tmp_path / "w.safetensors", chosen)
    seen = []
    for seed in (0, 1):
        samples = Samples(network, chosen, seed, "native", 20, tmp_path)[0:20].astype(int)
        expected = draw_many(network, chosen.architecture, evaluation_seed(seed), 20, 20, CPU).astype(int)
        assert np.abs(samples - expected).max() <= 1 < np.abs(samples - expected[::-1]).max()
        seen.append(samples)
    assert not np.array_equal(seen[0], seen[1])


@pytest.mark.parametrize("count", [5, 7, 12, 16, 20])
def test_a_part_of_the_samples_has_the_same_bits(tmp_path: Path, count: int) -> None:
    """They are drawn in the same batches, of 7, 7 and 6."""
    chosen = in_batches(IMLE, 20, 7)
    network = checkpoints.write(tmp_path / "w.safetensors", chosen)
    whole = draw_many(network, chosen.architecture, evaluation_seed(0), 20, 7, CPU)
    some = Samples(network, chosen, 0, "native", count, tmp_path / "new")
    assert len(some) == count
    assert_array_equal(some[0:count], whole[:count])
    assert not list((tmp_path / "new").iterdir())  # the file has no name


@pytest.mark.parametrize("name", [MLP, GAN])
def test_the_mapper_sees_the_label_beside_z_where_there_are_classes(tmp_path: Path, name: str) -> None:
    architecture = smoke_workspace.experiment(name).architecture
    network: Any = checkpoints.write(tmp_path / "w.safetensors", name)
    index = torch.arange(4)
    z = latents(3, index, architecture.dim)
    labels = labels_of(3, index, architecture.classes)
    expected = network.mapper(z) if labels is None else network.mapping.map(z, labels)
    torch.testing.assert_close(network.mapper(mapper_inputs(network, architecture, 3, index)), expected)


@pytest.mark.parametrize("name", ["cifar10_imle_rtm", "cifar10_stylegan2_rtm"])
def test_halting_and_its_control_share_their_steps(tmp_path: Path, name: str) -> None:
    sweep = (1, 3, Halting(tolerance=0.5, max=6))
    chosen = replace(smoke_workspace.experiment(name), sweep=sweep)
    assert chosen.variants == ("native", "H1", "H3", "halt_0_5_6", "halt_0_5_6_shuffled")
    checkpoints.write(tmp_path / "w.safetensors", chosen, perturbed=False)
    network = load_generator(chosen.architecture, tmp_path / "w.safetensors", CPU)

    def samples(variant: str, count: int = 64) -> Samples:
        return Samples(network, chosen, 0, variant, count, tmp_path)

    steps = samples("halt_0_5_6").steps
    shuffled = samples("halt_0_5_6_shuffled", count=9).steps  # the order is that of all samples
    assert len(steps.unique()) > 1
    assert steps.max() <= 6
    assert sorted(steps) == sorted(shuffled)
    assert not torch.equal(steps, shuffled)
    assert set(samples("H3").steps.tolist()) == {3}
    halted = samples("halt_0_5_6")[0:64].astype(int)
    third = samples("H3")[0:64].astype(int)
    same = np.abs(halted - third).max((1, 2, 3)) <= 1
    assert_array_equal(same, steps.numpy() == 3)
