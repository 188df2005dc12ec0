"""The numbers about a recursion are right for recursions with known answers."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from support import checkpoints, smoke_workspace
from torch import Tensor
from torch.testing import assert_close

from rtm import RTM
from rtm.metrics.features import FeatureSet
from rtm.metrics.refinement import Refinement, agreement, amplification, changes, hardness, quantiles
from rtm.metrics.sampling import Samples


class Halves:
    """A recursion that starts at 1 + z; its distance to the fixed point 1 halves in every step."""

    def trajectory(self, z: Tensor) -> Iterator[Tensor]:
        state = z[None]  # (tokens, batch, width)
        while True:
            state = state / 2
            yield 1 + state

    def read(self, state: Tensor) -> Tensor:
        return state[0] - 1  # w halves, too, so each change of w is as large as the new w


def test_changes_of_a_recursion_that_halves() -> None:
    z = torch.tensor([[8.0], [-8.0], [0.0]])
    moved = changes(Halves(), z, 6)
    assert moved["z"].shape == (5, 3)
    for step in range(5):  # from 1 + 8 / 2^(step + 1) to 1 + 8 / 2^(step + 2)
        to = 8 / 2 ** (step + 2)
        assert moved["z"][step].tolist() == pytest.approx([to / (1 + to), to / abs(1 - to) if to != 1 else math.inf, 0])
        assert moved["w"][step, :2].tolist() == pytest.approx([1, 1])


def test_quantiles_are_over_the_latents() -> None:
    curves = quantiles(torch.linspace(0, 1, 101, dtype=torch.float64).expand(3, 101))
    assert curves == {"p10": [0.1] * 3, "median": [0.5] * 3, "p90": [0.9] * 3, "p99": [0.99] * 3}


def test_agreement_by_hand() -> None:
    """The features are on a line. One of four classes flips, and every image moves by 0.5."""
    features = np.array([[0.0], [3.0], [6.0], [9.0]], np.float32)
    logits = np.eye(4, dtype=np.float32)
    other = logits.copy()
    other[2] = logits[0]
    agreed = agreement(FeatureSet(features, logits), FeatureSet(features + 0.5, other))
    assert agreed["flips"] == 0.25
    assert 0.5 / 9 < agreed["feature_change"] < 0.5 / 3  # different images are 3 to 9 apart
    same = agreement(FeatureSet(features, logits), FeatureSet(features, logits))
    assert same == {"feature_change": 0.0, "flips": 0.0}
    assert "flips" not in agreement(FeatureSet(features, None), FeatureSet(features, None))


def test_hardness_is_a_rank_correlation_with_the_distance_to_the_data() -> None:
    fake = np.arange(10.0, dtype=np.float32)[:, None] ** 2
    real = np.array([[0.0], [-5.0]], np.float32)
    assert hardness(np.arange(10), fake, real) == pytest.approx(1)
    assert hardness(-np.arange(10), fake, real) == pytest.approx(-1)
    assert hardness(np.full(10, 8), fake, real) == 0


def test_rounding_errors_grow_with_the_recursion_and_vanishes_in_float64() -> None:
    torch.manual_seed(0)
    mapper = RTM(512, 4, 128, 16, 1)
    z = torch.randn(8, 512)
    few = amplification(mapper, z, 1)
    many = amplification(mapper, z, 24)
    assert 1 < few.median() < 20
    assert many.median() > 3 * few.median()  # an untrained mapper amplifies errors
    mixed = amplification(mapper, z, torch.tensor([1, 24] * 4))
    assert_close(mixed[::2], few[::2], rtol=0.5, atol=0)
    assert_close(mixed[1::2], many[1::2], rtol=0.5, atol=0)
    assert not amplification(mapper.double(), z.double(), 8).any()


def test_twice_the_steps_of_one_variant_are_the_samples_of_another(tmp_path: Path) -> None:
    """They are equal bit for bit, so features that were kept for one variant also serve the other."""
    chosen = replace(smoke_workspace.experiment("cifar10_imle_rtm"), sweep=(3, 6))
    network = checkpoints.write(tmp_path / "w.safetensors", chosen)
    seen: list[np.ndarray] = []

    def look(images: np.ndarray) -> FeatureSet:
        seen.append(images)
        return FeatureSet(images.reshape(len(images), -1).astype(np.float32), None)

    third, sixth = (Samples(network, chosen, 0, variant, 64, tmp_path)[0:64] for variant in ("H3", "H6"))
    Refinement(network, chosen, 0).metrics(torch.full((64,), 3), look(third), look)
    np.testing.assert_array_equal(seen[1], sixth)
