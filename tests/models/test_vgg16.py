"""VGG16 from a file: frozen, with the weights of the file, and without a classifier if the file has none."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn
from torchvision.models.vgg import VGG

from rtm.core.errors import UserError
from rtm.models import vgg16
from rtm.models.vgg16 import load_vgg16


def test_a_file_of_the_convolutions_alone_gives_their_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    first = nn.Conv2d(3, 4, 3, padding=1)
    monkeypatch.setattr(vgg16, "vgg16", lambda weights: VGG(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())))
    save_file({f"features.0.{name}": tensor for name, tensor in first.state_dict().items()}, tmp_path / "vgg16")
    network = load_vgg16(tmp_path / "vgg16")
    images = torch.randn(2, 3, 14, 14)
    torch.testing.assert_close(network(images), F.avg_pool2d(first(images).relu(), 2).flatten(1))
    assert not network.training and not any(parameter.requires_grad for parameter in network.parameters())


def test_without_the_file_the_command_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="rtm fetch vgg16"):
        load_vgg16(tmp_path / "vgg16.safetensors")
