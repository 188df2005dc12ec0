"""VGG16 is frozen, with the given weights, and without a classifier if they have none."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models.vgg import VGG

from rtm.models import vgg16
from rtm.models.vgg16 import load_vgg16


def test_the_convolutions_alone_give_their_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    first = nn.Conv2d(3, 4, 3, padding=1)
    monkeypatch.setattr(vgg16, "vgg16", lambda weights: VGG(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU())))
    network = load_vgg16({f"features.0.{name}": tensor for name, tensor in first.state_dict().items()})
    images = torch.randn(2, 3, 14, 14)
    torch.testing.assert_close(network(images), F.avg_pool2d(first(images).relu(), 2).flatten(1))
    assert not network.training
    assert not any(parameter.requires_grad for parameter in network.parameters())
