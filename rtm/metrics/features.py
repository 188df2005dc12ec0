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
from rtm.core.progress import progress
from rtm.metrics.images import Pictures, Pixels


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
        logits = None if self.logits is None else self.logits[:number]
        return FeatureSet(self.features[:number], logits)


class Extractor(nn.Module):
    """Images uint8 (batch, 3, H, W) to `Features`. It is made from a weights file and a protocol's kind of resizing."""

    digest: str  # the identity of weights and preprocessing
    title: str  # for people
    quick = False  # true if extracting again costs less than keeping features

    def forward(self, images: Tensor) -> Features:
        raise NotImplementedError


def identity(path: Path, preprocessing: str) -> str:
    return hashlib.sha256(f"{digest(path)} {preprocessing}".encode()).hexdigest()


def joined(parts: Sequence[FeatureSet]) -> FeatureSet:
    features = np.concatenate([part.features for part in parts])
    logits = [part.logits for part in parts if part.logits is not None]
    if len(logits) < len(parts):
        return FeatureSet(features, None)
    return FeatureSet(features, np.concatenate(logits))


def run(pixels: Pixels, extractor: Extractor, device: torch.device | str) -> FeatureSet:
    """The features of one batch (n, H, W, 3). The other images in the batch change an image's features by rounding
    only."""
    exact = torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False)
    images = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2)
    with torch.inference_mode(), full_precision(), exact:
        batch: Features = extractor.to(device)(images)
        logits = None if batch.logits is None else batch.logits.cpu().numpy()
        return FeatureSet(batch.features.cpu().numpy(), logits)


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
            last = min(first + batch_size, count)
            parts.append(run(np.array(images[first:last]), extractor, device))
            report(last)
    return joined(parts)
