"""The feature network of the demo: a small classifier of handwritten digits, trained in seconds.

Inception's features describe digits badly. So, as usual for digits, a classifier gives the features of FID, precision
and recall, the classes of the Inception Score, and the maps of the perceptual loss.
"""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from rtm.core.errors import UserError
from rtm.core.files import atomic, reading
from rtm.core.layout import at_scale
from rtm.core.pixels import to_unit
from rtm.core.progress import progress
from rtm.core.randomness import permutation, seed_of
from rtm.data.datasets import Images
from rtm.data.sampler import batch_of

SEED, STEPS, BATCH, FEATURES, CLASSES = 0, 1000, 64, 64, 10


class DigitClassifier(nn.Module):
    """Images (batch, 3, R, R) in [-1, 1], R of 8 to 32, to logits; three maps on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            [nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.Conv2d(32, 32, 3, padding=1)]
        )
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.features = nn.Linear(4 * 32, FEATURES)
        self.logits = nn.Linear(FEATURES, CLASSES)

    def maps(self, images: Tensor) -> list[Tensor]:
        x, maps = images, []
        for convolution in self.convolutions:
            x = F.relu(convolution(x))
            maps.append(x)
        return maps

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Features (batch, 64) and logits (batch, 10)."""
        features: Tensor = self.features(self.pool(self.maps(images)[-1]).flatten(1))
        return features, self.logits(F.relu(features))


def train_digit_classifier(images: Images, path: Path) -> None:
    """Train on four fifths of the digits; write the weights and the accuracy on the other digits."""
    assert images.labels is not None
    order = permutation(seed_of(SEED, "split"), len(images))
    held_out, learned = order[: len(order) // 5], order[len(order) // 5 :]
    labels = torch.from_numpy(images.labels)
    torch.manual_seed(SEED)
    network = DigitClassifier()
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    with progress("train the digit classifier", STEPS) as report:
        for step in range(STEPS):
            chosen = learned[batch_of(SEED, step, BATCH, len(learned))]
            loss = F.cross_entropy(network(images.batch(chosen, torch.device("cpu")))[1], labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(step + 1, loss=loss.item())
    described = {"accuracy": _accuracy(network, images, held_out), "held_out": len(held_out), "data": images.sha256}
    with atomic(path) as file:
        file.write(save(network.state_dict(), metadata={"rtm": json.dumps(described, sort_keys=True)}))


@torch.no_grad()
def _accuracy(network: DigitClassifier, images: Images, index: Tensor) -> float:
    assert images.labels is not None
    guessed = network(to_unit(torch.tensor(images.pixels[index.numpy()]).permute(0, 3, 1, 2)))[1].argmax(1)
    return round(float((guessed == torch.from_numpy(images.labels)[index]).float().mean()), 4)


def load_digits_classifier(path: Path) -> DigitClassifier:
    remedy = f"make it with `rtm fetch digit_classifier{at_scale(path, 2)}`"
    if not path.exists():
        raise UserError(f"{path} is missing; {remedy}.")
    network = DigitClassifier()
    with reading(path, remedy):
        network.load_state_dict(load_file(path))
    return network.eval().requires_grad_(False)
