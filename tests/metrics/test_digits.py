"""The demo's feature network learns the digits, and the same weights every time."""

from pathlib import Path

import pytest
import torch
from support import PARAMS

from rtm.config import load
from rtm.core.readers import checkpoint_metadata
from rtm.data.datasets import Images
from rtm.data.prepare import prepare
from rtm.metrics import digits
from rtm.metrics.digits import train_digit_classifier
from rtm.models.digits import load_digits_classifier


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    path = tmp_path_factory.mktemp("digits") / "images.npy"
    prepare("digits", load("demo", PARAMS).params.datasets["digits"], path)
    return Images(path)


@pytest.mark.slow(seconds=6)
def test_it_knows_digits_that_it_has_not_seen(images: Images, tmp_path: Path) -> None:
    train_digit_classifier(images, tmp_path / "weights")
    described = checkpoint_metadata(tmp_path / "weights")
    assert described["accuracy"] > 0.95
    assert described["held_out"] == 359
    assert described["data"] == images.sha256
    features, logits = load_digits_classifier(tmp_path / "weights")(torch.zeros(2, 3, 8, 8))
    assert features.shape == (2, 64)
    assert logits.shape == (2, 10)


def test_it_learns_the_same_weights_every_time(images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step's number determines its batch. A difference would show in the first 100 steps."""
    monkeypatch.setattr(digits, "STEPS", 100)
    for name in ("first", "second"):
        train_digit_classifier(images, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
