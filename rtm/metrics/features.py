"""From images to features: the code that all networks behind the metrics share."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rtm.core.distances import full_precision
from rtm.core.files import digest
from rtm.core.pixels import to_unit
from rtm.core.progress import progress
from rtm.metrics.images import Pictures, Pixels
from rtm.models.digits import load_digits_classifier


class Features(NamedTuple):
    features: Tensor  # (batch, d) float32
    logits: Tensor | None  # (batch, classes) float32


@dataclass(frozen=True)
class FeatureSet:
    features: NDArray[np.float32]  # (n, d)
    logits: NDArray[np.float32] | None  # (n, classes)

    def __len__(self) -> int:
        return len(self.features)

    def first(self, number: int) -> "FeatureSet":
        return FeatureSet(self.features[:number], None if self.logits is None else self.logits[:number])


class Extractor(nn.Module):
    """Images uint8 (batch, 3, H, W) to `Features`; `digest` is the identity of weights and preprocessing."""

    digest: str
    title: str  # for people
    quick = False  # true if extracting again costs less than keeping features

    def forward(self, images: Tensor) -> Features:
        raise NotImplementedError


def identity(path: Path, preprocessing: str) -> str:
    return hashlib.sha256(f"{digest(path)} {preprocessing}".encode()).hexdigest()


class DigitsExtractor(Extractor):
    """The digit classifier's last hidden layer, 64-d, and its 10 classes."""

    title, quick = "digit classifier", True

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.network = load_digits_classifier(weights)
        self.digest = identity(weights, "none")

    def forward(self, images: Tensor) -> Features:
        return Features(*self.network(to_unit(images)))


def joined(parts: Sequence[FeatureSet]) -> FeatureSet:
    logits = [part.logits for part in parts if part.logits is not None]
    return FeatureSet(
        np.concatenate([part.features for part in parts]), np.concatenate(logits) if len(logits) == len(parts) else None
    )


def run(pixels: Pixels, extractor: Extractor, device: torch.device | str) -> FeatureSet:
    """The features of one batch (n, H, W, 3). The other images in the batch change an image's features by rounding
    only."""
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    with torch.inference_mode(), full_precision(), exact:
        found: Features = extractor.to(device)(torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2))
        logits = None if found.logits is None else found.logits.cpu().numpy()
        return FeatureSet(found.features.cpu().numpy(), logits)


def extract(
    images: Pictures,  # (n, H, W, 3): an array, memory-mapped or not, or files
    extractor: Extractor,
    batch_size: int,
    device: torch.device | str,
    count: int | None = None,  # only the first `count` images; by default all
) -> FeatureSet:
    count = len(images) if count is None else count
    parts: list[FeatureSet] = []
    with progress("extract features", count) as report:
        for first in range(0, count, batch_size):
            parts.append(run(np.array(images[first : min(first + batch_size, count)]), extractor, device))
            report(first + len(parts[-1]))
    return joined(parts)
