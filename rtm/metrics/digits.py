"""The demo's classifier of digits: its training, which takes seconds, and its features."""

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save
from torch import Tensor

from rtm.core.files import atomic
from rtm.core.pixels import to_unit
from rtm.core.progress import progress
from rtm.core.randomness import permutation, seed_of
from rtm.data.batches import batch_of
from rtm.data.datasets import Images
from rtm.metrics.features import Extractor, Features, identity
from rtm.models.digits import DigitClassifier, load_digits_classifier

SEED = 0
STEPS = 1000
BATCH = 64


class DigitsExtractor(Extractor):
    """The digit classifier's last hidden layer, 64-d, and its 10 classes."""

    title = "digit classifier"
    quick = True

    def __init__(self, weights: Path, resize: str = "none") -> None:
        super().__init__()
        self.network = load_digits_classifier(weights)
        self.digest = identity(weights, "none")

    def forward(self, images: Tensor) -> Features:
        features, logits = self.network(to_unit(images))
        return Features(features, logits)


def train_digit_classifier(images: Images, weights: Path) -> None:
    """Train on four fifths of the digits; write the weights and the accuracy on the other digits."""
    assert images.labels is not None
    order = permutation(seed_of(SEED, "split"), len(images))
    fifth = len(order) // 5
    held_out = order[:fifth]
    learned = order[fifth:]
    labels = torch.from_numpy(images.labels)
    torch.manual_seed(SEED)
    network = DigitClassifier()
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    with progress("train the digit classifier", STEPS) as report:
        for step in range(STEPS):
            index = learned[batch_of(SEED, step, BATCH, len(learned))]
            logits = network(images.batch(index, torch.device("cpu")))[1]
            loss = F.cross_entropy(logits, labels[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            report(step + 1, loss=loss.item())
    accuracy = _accuracy(network, images, labels, held_out)
    description = {"accuracy": accuracy, "held_out": len(held_out), "data": images.sha256}
    with atomic(weights) as file:
        file.write(save(network.state_dict(), metadata={"rtm": json.dumps(description, sort_keys=True)}))


@torch.no_grad()
def _accuracy(network: DigitClassifier, images: Images, labels: Tensor, index: Tensor) -> float:
    pixels = torch.tensor(images.pixels[index.numpy()]).permute(0, 3, 1, 2)
    guesses = network(to_unit(pixels))[1].argmax(1)
    return round(float((guesses == labels[index]).float().mean()), 4)
