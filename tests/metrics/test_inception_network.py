"""Inception's layers: folding the batch norms changes no result. test_inception.py tests the whole network."""

import pytest
import torch
from torch import nn
from torch_fidelity.feature_extractor_inceptionv3 import BasicConv2d

from rtm.metrics import inception_network
from rtm.metrics.inception_network import load_inception


def layers() -> nn.Sequential:
    return nn.Sequential(BasicConv2d(3, 4, kernel_size=3, stride=2), BasicConv2d(4, 5, kernel_size=1))


def test_folded_batch_norms_change_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = layers().eval()
    for name, tensor in network.state_dict().items():
        if tensor.is_floating_point():
            tensor.normal_() if name.endswith(("bias", "mean")) else tensor.uniform_(0.5, 2)
    monkeypatch.setattr(inception_network, "inception_layers", layers)
    folded = load_inception(network.state_dict() | {"fc.weight": torch.ones(7, 5)})
    images = torch.randn(2, 3, 9, 9)
    torch.testing.assert_close(folded(images), network(images))
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in folded.modules())
    assert not any(parameter.requires_grad for parameter in folded.parameters())
