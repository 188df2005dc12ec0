"""Weights that are missing name the command that gets them; those that are here give published numbers."""

import os
from pathlib import Path

import pytest
import torch
from support.needed import needed
from torchvision.models import vgg16

from rtm.core.errors import UserError
from rtm.data.weights import load_network


def test_missing_weights_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch vgg16"):
        load_network(tmp_path / "vgg16.safetensors")


@pytest.mark.slow(seconds=4)
def test_lpips_has_its_published_value() -> None:
    """The example in torchmetrics' documentation: 0.3493, with the network made between the seed and the images."""
    folder = Path(os.environ.get("RTM_WEIGHTS", "weights"))
    path = needed(folder / "vgg16.safetensors", "vgg16", "REQUIRE_WEIGHTS")
    from rtm.methods.imle.perceptual import distance, load_maps

    torch.manual_seed(123)
    vgg16(weights=None, init_weights=False)
    for width in (64, 128, 256, 512, 512):
        torch.nn.Conv2d(width, 1, 1, bias=False)
    images = [2 * torch.rand(10, 3, 100, 100) - 1 for _ in range(2)]
    maps = load_maps("lpips", path)
    with torch.inference_mode():
        assert distance(maps(images[0]), maps(images[1])).mean().item() == pytest.approx(0.3493, abs=5e-5)
