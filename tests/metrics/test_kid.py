"""KID: against torch-fidelity, against a slow transcription, and its bias."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch_fidelity.metric_kid import kernel_mmd, kid_features_to_metric

from rtm.core import distances
from rtm.core.errors import UserError
from rtm.metrics.kid import kernel_distance

Array = NDArray[np.float32]


def features(count: int, seed: int, width: int = 40, moved: float = 0.0) -> Array:
    return np.asarray(np.maximum(np.random.default_rng(seed).normal(size=(count, width)) + 0.3 + moved, 0), np.float32)


def transcribed(real: Array, fake: Array) -> float:
    """KID computed pair by pair."""

    def kernel(x: Array, y: Array) -> float:
        return float((np.dot(x.astype(np.float64), y.astype(np.float64)) / len(x) + 1) ** 3)

    own = [np.mean([kernel(x, y) for i, x in enumerate(s) for j, y in enumerate(s) if i != j]) for s in (real, fake)]
    return float(sum(own) - 2 * np.mean([kernel(x, y) for x in real for y in fake]))


def test_it_is_the_sum_over_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(distances.EDGE, "cpu", 16)
    for reals, fakes in ((37, 20), (5, 48)):
        real = features(reals, 0)
        fake = features(fakes, 1, moved=0.1)
        assert kernel_distance(real, fake)[0] == pytest.approx(transcribed(real, fake), abs=1e-6)


def test_it_equals_torch_fidelity_on_its_subsets() -> None:
    """The two are equal on each subset that torch-fidelity draws, so their means are equal."""
    real = features(300, 0)
    fake = features(260, 1, moved=0.05)
    options = {"kid_subsets": 7, "kid_subset_size": 100, "rng_seed": 2020, "verbose": False}
    expected = kid_features_to_metric(torch.from_numpy(real), torch.from_numpy(fake), **options)
    random = np.random.RandomState(2020)
    found = []
    for _ in range(7):
        subsets = [each[random.choice(len(each), 100, replace=False)] for each in (real, fake)]
        found.append(kernel_distance(*subsets)[0])
        assert found[-1] == pytest.approx(kernel_mmd(*(each.astype(np.float64) for each in subsets)), abs=1e-6)
    assert np.mean(found) == pytest.approx(expected["kernel_inception_distance_mean"], abs=1e-6)


def test_it_has_no_bias_and_the_number_of_images_does_not_move_it() -> None:
    distance = kernel_distance(features(3000, 1000), features(3000, 1001, moved=0.1))[0]
    for count in (20, 80):
        alike, apart = (
            [kernel_distance(features(60, 2 * seed), features(count, 2 * seed + 1, moved=moved)) for seed in range(150)]
            for moved in (0.0, 0.1)
        )
        spread = np.std([value for value, _ in alike]) / np.sqrt(150)
        assert abs(np.mean([value for value, _ in alike])) < 3 * spread
        assert np.mean([value for value, _ in apart]) == pytest.approx(distance, rel=0.15)


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="at least 4 fake images, not 3"):
        kernel_distance(features(9, 0), features(3, 1))
    with pytest.raises(UserError, match="differ in width, 40 and 8"):
        kernel_distance(features(9, 0), features(9, 1, width=8))
    with pytest.raises(UserError, match="NaN"):
        kernel_distance(features(9, 0), features(9, 1) * np.float32(np.nan))
