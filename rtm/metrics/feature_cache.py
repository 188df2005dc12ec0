"""Keep extracted features on disk: no block of images is extracted twice, and an interrupted extraction continues.

<folder>/<extractor.digest>/<sha256 of 500 images> is a sealed file with their features and, if the network has
classes, their logits. `probe` has the features of two fixed images. A file is used only if the present code gives the
same probe, so a change of the code or the device never leaves wrong features in use.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from rtm.core.errors import UserError
from rtm.core.progress import progress
from rtm.core.readers import UNREADABLE
from rtm.core.sealed import sealed, unsealed
from rtm.metrics.features import Extractor, FeatureSet, joined, run
from rtm.metrics.images import Pictures, Pixels

BLOCK = 500  # images of a file
SAME = 1e-4  # share of a probe's length; another device or batch changes features by less than a tenth of this


class FeatureCache:
    """The features of one extractor in a folder."""

    def __init__(
        self,
        folder: Path,  # of all extractors
        extractor: Extractor,
        batch_size: int,
        device: torch.device | str,
    ) -> None:
        self.folder = folder / extractor.digest
        self.extractor = extractor
        self.batch_size = batch_size
        self.device = device
        self.probe = np.concatenate([run(image, extractor, device).features for image in _probes()])

    def features(self, images: Pictures, count: int) -> FeatureSet:
        """The features of the first images. Missing features are extracted and kept, one block at a time."""
        blocks = []
        with progress("extract features", count) as report:
            for first in range(0, count, BLOCK):
                last = min(first + BLOCK, count)
                blocks.append(self._block(np.array(images[first:last])))
                report(last)
        return joined(blocks)

    def _block(self, pixels: Pixels) -> FeatureSet:
        shape = f"{pixels.shape}\n".encode()
        path = self.folder / hashlib.sha256(shape + pixels.tobytes()).hexdigest()
        kept = self._read(path)
        if kept is not None:
            return kept
        batches = []
        for start in range(0, len(pixels), self.batch_size):
            batch = pixels[start : start + self.batch_size]
            batches.append(run(batch, self.extractor, self.device))
        block = joined(batches)
        self._write(path, block)
        return block

    def _read(self, path: Path) -> FeatureSet | None:
        """The features in a file; None if it is missing, damaged, or from other code."""
        with suppress(UserError, *UNREADABLE), unsealed(path) as (_, file):
            tensors = load(file.read())
            if _is_close(tensors["probe"], self.probe):
                return FeatureSet(tensors["features"], tensors.get("logits"))
        return None

    def _write(self, path: Path, block: FeatureSet) -> None:
        tensors = {"features": block.features, "probe": self.probe}
        if block.logits is not None:
            tensors["logits"] = block.logits
        with sealed(path, {"network": self.extractor.title}) as file:
            file.write(save(tensors))


def _probes() -> Iterator[Pixels]:
    """Two images, each as a batch: a small one, and one that is larger than any network's input."""
    for side in (32, 320):
        y, x = np.mgrid[:side, :side] * 6.0 / side
        waves = [np.sin(x * y + channel) + np.cos(3 * x - channel * y) for channel in range(3)]
        image = np.stack(waves, axis=-1) * 60 + 127.5
        yield np.rint(image[None]).astype(np.uint8)


def _is_close(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    if one.shape != other.shape:
        return False
    distance = np.linalg.norm(one - other)
    return bool(distance <= SAME * np.linalg.norm(other))
