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
from rtm.models.digits import load_digits_classifier, train_digit_classifier


@pytest.mark.slow(seconds=6)
def test_it_knows_digits_that_it_has_not_seen(tmp_path: Path) -> None:
    prepare("digits", load("demo", PARAMS).params.datasets["digits"], tmp_path / "images.npy")
    images = Images(tmp_path / "images.npy")
    for name in ("first", "second"):
        train_digit_classifier(images, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()
    described = checkpoint_metadata(tmp_path / "first")
    assert described["accuracy"] > 0.95 and described["held_out"] == 359 and described["data"] == images.sha256
    features, logits = load_digits_classifier(tmp_path / "first")(torch.zeros(2, 3, 8, 8))
    assert features.shape == (2, 64) and logits.shape == (2, 10)


def test_without_it_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch digit_classifier"):
        load_digits_classifier(tmp_path / "absent")
    for content in (b"cut short", save({"other": torch.zeros(2)})):
        (tmp_path / "damaged").write_bytes(content)
        with pytest.raises(UserError, match=r"damaged is damaged .* `rtm fetch digit_classifier`"):
            load_digits_classifier(tmp_path / "damaged")
