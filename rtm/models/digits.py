"""The feature network of the demo: a small classifier of handwritten digits.

Inception's features describe digits badly. So, as usual for digits, a classifier gives the features of FID, precision
and recall, the classes of the Inception Score, and the maps of the perceptual loss.
"""

from pathlib import Path

import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn

from rtm.core.advice import at_scale
from rtm.core.errors import UserError
from rtm.core.readers import reading

FEATURES = 64
CLASSES = 10


class DigitClassifier(nn.Module):
    """Images (batch, 3, R, R) in [-1, 1], R of 8 to 32, to logits; three maps on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            [
                nn.Conv2d(3, 16, 3, padding=1),
                nn.Conv2d(16, 32, 3, stride=2, padding=1),
                nn.Conv2d(32, 32, 3, padding=1),
            ]
        )
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.features = nn.Linear(4 * 32, FEATURES)
        self.logits = nn.Linear(FEATURES, CLASSES)

    def maps(self, images: Tensor) -> list[Tensor]:
        x = images
        maps = []
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
            maps.append(x)
        return maps

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features (batch, 64) and logits (batch, 10)."""
        last = self.maps(images)[-1]
        features: Tensor = self.features(self.pool(last).flatten(1))
        return features, self.logits(F.relu(features))


def load_digits_classifier(path: Path) -> DigitClassifier:
    remedy = f"make it with `rtm fetch digit_classifier{at_scale(path, 2)}`"
    if not path.exists():
        raise UserError(f"{path} is missing; {remedy}.")
    network = DigitClassifier()
    with reading(path, remedy):
        network.load_state_dict(load_file(path))
    return network.eval().requires_grad_(False)
