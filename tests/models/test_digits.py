"""The demo's feature network learns the digits, and the same weights every time."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import checkpoint_metadata
from rtm.data.datasets import Images
from rtm.data.prepare import prepare
from rtm.models import digits
from rtm.models.digits import load_digits_classifier, train_digit_classifier


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    path = tmp_path_factory.mktemp("digits") / "images.npy"
    prepare("digits", load("demo", PARAMS).params.datasets["digits"], path)
    return Images(path)


@pytest.mark.slow(seconds=6)
def test_it_knows_digits_that_it_has_not_seen(images: Images, tmp_path: Path) -> None:
    train_digit_classifier(images, tmp_path / "weights")
    described = checkpoint_metadata(tmp_path / "weights")
    assert described["accuracy"] > 0.95 and described["held_out"] == 359 and described["data"] == images.sha256
    features, logits = load_digits_classifier(tmp_path / "weights")(torch.zeros(2, 3, 8, 8))
    assert features.shape == (2, 64) and logits.shape == (2, 10)


def test_it_learns_the_same_weights_every_time(images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step's number determines its batch. A difference would show in the first 100 steps."""
    monkeypatch.setattr(digits, "STEPS", 100)
    for name in ("first", "second"):
        train_digit_classifier(images, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_without_it_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch digit_classifier"):
        load_digits_classifier(tmp_path / "absent")
    for content in (b"cut short", save({"other": torch.zeros(2)})):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(UserError, match=r"damaged is damaged .* `rtm fetch digit_classifier`"):
            load_digits_classifier(tmp_path / "damaged")
