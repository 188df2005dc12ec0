"""The copy test finds real copies and calls nothing else a copy."""

import numpy as np
import pytest
from numpy.typing import NDArray

from rtm.core.errors import UserError
from rtm.metrics.memorisation import SIGNIFICANCE, copies

Array = NDArray[np.float32]
RANDOM = np.random.default_rng(0)


def images(count: int, scale: float = 1.0, width: int = 16) -> Array:
    return np.asarray(scale * RANDOM.normal(size=(count, width)), np.float32)


@pytest.mark.parametrize("scale", [0.02, 0.5, 1.0, 3.0])
def test_a_model_that_does_not_copy_is_not_accused(scale: float) -> None:
    """This holds for any spread of its images; at 0.02 nearly all of them have the same neighbour."""
    shares = []
    chances = []
    held = 0
    for _ in range(60):
        found = copies(images(200, scale), images(200), images(200))
        low, high = found["nearer_to_train_interval"]
        held += low <= 0.5 <= high
        shares.append(found["nearer_to_train"])
        chances.append(found["chance"])
        assert found["near_duplicates"] <= 0.01
    assert min(chances) >= SIGNIFICANCE
    assert held >= 54
    assert np.mean(shares) == pytest.approx(0.5, abs=0.16 if scale < 0.1 else 0.04)


@pytest.mark.parametrize("copied", [0.2, 1.0])
def test_copies_are_found(copied: float) -> None:
    train = images(500)
    held_out = images(500)
    fresh = images(500)
    number = round(500 * copied)
    fake = np.concatenate([train[:number] + images(number, 0.05), fresh[number:]])
    found = copies(fake, train, held_out)
    assert found["chance"] < SIGNIFICANCE
    assert "copies, or images too near" in found["says"]
    assert found["nearer_to_train"] == pytest.approx(copied + (1 - copied) / 2, abs=0.06)
    assert found["near_duplicates"] == pytest.approx(copied, abs=0.02)
    assert copies(fake, train)["near_duplicates"] == found["near_duplicates"]


def test_without_held_out_images_it_says_what_cannot_be_found() -> None:
    found = copies(images(50), images(100))
    assert "only near-duplicates" in found["says"]
    assert "nearer_to_train" not in found


def test_both_sets_are_made_equally_large_always_in_the_same_way() -> None:
    fake = images(300)
    train = images(900)
    held_out = images(150)
    found = copies(fake, train, held_out)
    assert found["set_size"] == 150
    assert found["nearer_to_train"] == pytest.approx(0.5, abs=0.12)
    assert copies(fake, train, held_out) == found


def test_equal_distances_do_not_count() -> None:
    train = images(200)
    held_out = images(200)
    held_out[0] = train[0]
    found = copies(np.concatenate([train[:1].repeat(30, axis=0), images(100)]), train, held_out)
    assert found["ties"] >= 30
    assert found["chance"] >= SIGNIFICANCE


def test_what_shows_nothing_is_refused() -> None:
    train = images(100)
    with pytest.raises(UserError, match="6% of the held-out images are in the training set"):
        copies(images(9), train, np.concatenate([images(94), train[:6] * np.float32(1 + 1e-7)]))
    with pytest.raises(UserError, match="at least 2 training images"):
        copies(images(9), train[:1])
    with pytest.raises(UserError, match="no test"):
        copies(train[:1], train, np.concatenate([train[:1], images(199)]))
