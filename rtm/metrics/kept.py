"""Keep extracted features on disk: no image is extracted twice, and an interrupted extraction continues.

<folder>/<extractor.digest>/<sha256 of the file>.safetensors holds up to 500 images: `images` (n, 32) uint8 has the
sha256 of each image (`key_of`), `features` its features and, if the network has classes, `logits` its logits. `probe`
has the features of two fixed images. A file is used only if the present code gives the same probe, so a change of the
code or the device never leaves wrong features in use.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file, save

from rtm.core.files import UNREADABLE, atomic, digest, reading
from rtm.core.progress import progress
from rtm.metrics.features import Extractor, FeatureSet, joined, run
from rtm.metrics.images import Pictures, Pixels, key_of

BLOCK = 500  # images of a file
SAME = 1e-4  # share of a probe's length; another device or batch changes features by less than a tenth of this


class Kept:
    """The features of one extractor in a folder."""

    def __init__(self, folder: Path, extractor: Extractor, batch_size: int, device: torch.device | str) -> None:
        self.folder, self.extractor = folder / extractor.digest, extractor
        self.batch_size, self.device = batch_size, device
        self.probe = np.concatenate([run(image, extractor, device).features for image in _probes()])
        self._places: dict[bytes, tuple[Path, int]] = {}  # the file of each image, and its row there
        self._whole: set[Path] = set()  # files whose bytes were checked
        for path in sorted(self.folder.glob("*.safetensors")):
            with suppress(*UNREADABLE), safe_open(path, "numpy") as file:
                if _close(file.get_tensor("probe"), self.probe):
                    self._place(path, file.get_tensor("images"))

    def features(self, images: Pictures, count: int) -> FeatureSet:
        """The features of the first images. Missing features are extracted and kept, one block at a time."""
        keys: list[bytes] = []
        extracted, began = 0, time.monotonic()
        with progress("extract features", count) as report:
            for first in range(0, count, BLOCK):
                pixels = np.array(images[first : min(first + BLOCK, count)])
                found = [key_of(image) for image in pixels]
                missing = {key: row for row, key in enumerate(found) if not self._has(key)}
                parts = []
                for part in self._extracted(pixels[list(missing.values())]):
                    parts.append(part)
                    extracted += len(part)
                    report(len(keys) + sum(map(len, parts)), **{"images/s": extracted / (time.monotonic() - began)})
                if parts:
                    self.keep(pixels[list(missing.values())], joined(parts))
                keys += found
        return self._gathered(keys)

    def keep(self, pixels: Pixels, found: FeatureSet) -> None:
        """Write the features of a block of images."""
        images = np.frombuffer(b"".join(map(key_of, pixels)), np.uint8).reshape(len(pixels), -1)
        tensors: dict[str, NDArray[Any]] = {"images": images, "features": found.features, "probe": self.probe}
        if found.logits is not None:
            tensors["logits"] = found.logits
        content = save(tensors, metadata={"network": self.extractor.title})
        path = self.folder / f"{hashlib.sha256(content).hexdigest()}.safetensors"
        with atomic(path) as file:
            file.write(content)
        self._whole.add(path)
        self._place(path, images)

    def _extracted(self, pixels: Pixels) -> Iterator[FeatureSet]:
        for first in range(0, len(pixels), self.batch_size):
            yield run(pixels[first : first + self.batch_size], self.extractor, self.device)

    def _place(self, path: Path, images: NDArray[np.uint8]) -> None:
        self._places |= {key.tobytes(): (path, row) for row, key in enumerate(images)}

    def _has(self, key: bytes) -> bool:
        """Whether an image is in an undamaged file; a damaged file is removed."""
        if key not in self._places:
            return False
        path, _ = self._places[key]
        if path not in self._whole and not _is_whole(path):
            with suppress(OSError):  # another process removed the file, or this one has no permission
                path.unlink()
            self._places = {key: place for key, place in self._places.items() if place[0] != path}
            return False
        self._whole.add(path)
        return True

    def _gathered(self, keys: Sequence[bytes]) -> FeatureSet:
        """The features in the order of the keys; each file is read once."""
        wanted = defaultdict[Path, list[tuple[int, int]]](list)
        for position, key in enumerate(keys):
            path, row = self._places[key]
            wanted[path].append((position, row))
        gathered: dict[str, NDArray[np.float32]] = {}
        for path, pairs in wanted.items():
            positions, rows = np.array(pairs).T
            with reading(path, "run this again"):
                tensors = load_file(path)
            for name in tensors.keys() & {"features", "logits"}:
                if name not in gathered:
                    gathered[name] = np.empty((len(keys), tensors[name].shape[1]), np.float32)
                gathered[name][positions] = tensors[name][rows]
        return FeatureSet(gathered["features"], gathered.get("logits"))


def _is_whole(path: Path) -> bool:
    """Whether a file exists and is undamaged."""
    with suppress(OSError):
        return digest(path) == path.stem
    return False


def _probes() -> Iterator[Pixels]:
    """Two images, each as a batch: a small one, and one that is larger than any network's input."""
    for side in (32, 320):
        y, x = np.mgrid[:side, :side] * 6.0 / side
        waves = [np.sin(x * y + channel) + np.cos(3 * x - channel * y) for channel in range(3)]
        yield np.rint(np.stack(waves, axis=-1)[None] * 60 + 127.5).astype(np.uint8)


def _close(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return one.shape == other.shape and bool(np.linalg.norm(one - other) <= SAME * np.linalg.norm(other))


@dataclass(frozen=True)
class Use:
    """The network, number of images and size of the kept features of one extractor."""

    network: str
    images: int
    size: int  # bytes


def uses(folder: Path) -> list[Use]:
    found = []
    for folder_of_one in sorted(folder.glob("*/")):
        network, images, size = folder_of_one.name[:12], 0, 0
        for path in folder_of_one.glob("*.safetensors"):
            with suppress(*UNREADABLE), safe_open(path, "numpy") as file:
                network = file.metadata()["network"]
                images += file.get_slice("images").get_shape()[0]
                size += path.stat().st_size
        found.append(Use(network, images, size))
    return found
