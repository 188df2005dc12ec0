"""VGG16's features equal torchvision's network at fc2, after Pillow's resize."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from support.images import pictures
from torch import Tensor, nn
from torchvision import transforms

from rtm.core.errors import UserError
from rtm.metrics.features import extract
from rtm.metrics.vgg16 import VGG16Extractor
from rtm.models import vgg16


class _SmallVGG(nn.Module):
    """A small VGG16: convolutions, pooling, and seven layers, of which the first four are used."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(7))
        sizes = [nn.Linear(196, 16), nn.ReLU(), nn.Dropout(), nn.Linear(16, 16), nn.ReLU(), nn.Dropout()]
        self.classifier = nn.Sequential(*sizes, nn.Linear(16, 10))

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.classifier(self.features(images).flatten(1))
        return found


def test_vgg16_is_read_at_fc2_after_pillows_resize(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    network = _SmallVGG().eval()
    save_file(network.state_dict(), tmp_path / "vgg16.safetensors")
    monkeypatch.setattr(vgg16, "vgg16", lambda weights: _SmallVGG())
    images = pictures(3, 96, 8)
    steps = [transforms.Resize([224, 224]), transforms.ToTensor()]
    steps.append(transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    prepared = torch.stack([transforms.Compose(steps)(Image.fromarray(image)) for image in images])
    with torch.no_grad():
        expected = network.classifier[:4](network.features(prepared).flatten(1))
    found = extract(images, VGG16Extractor(tmp_path / "vgg16.safetensors"), 2, "cpu")
    assert found.logits is None
    assert (expected < 0).any()  # negative values: no ReLU follows
    np.testing.assert_allclose(found.features, expected.numpy(), atol=1e-5)
    few = {name: tensor for name, tensor in network.state_dict().items() if name.startswith("features.")}
    save_file(few, tmp_path / "few.safetensors")
    assert torch.equal(vgg16.load_vgg16(few).features[0].weight, few["features.0.weight"])
    with pytest.raises(UserError, match="convolutions only"):
        VGG16Extractor(tmp_path / "few.safetensors")
