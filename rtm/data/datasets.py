"""Read a prepared dataset: one memory-mapped array.

data/<name>/images.npy (uint8, N x R x R x 3), labels.npy (int64, N; only with classes) and meta.json, written last.
A test split is the same in test_images.npy and test_labels.npy.
"""

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rtm.core.advice import at_scale, pull_target
from rtm.core.devices import sent
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.pixels import to_unit
from rtm.core.readers import read_json, reading

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]


class Images:
    """A prepared dataset, memory-mapped."""

    def __init__(self, images: Path) -> None:
        meta = images.with_name("meta.json")
        labels = images.with_name(images.name.replace("images", "labels"))
        sum_key = images.name.replace("images.npy", "sha256")
        fetching = f"rtm fetch {images.parent.name}{at_scale(images, 3)}"
        remedy = f"get it with `{fetching}` or `dvc pull {pull_target(images)}`"
        if not (images.exists() and meta.exists()):
            raise UserError(f"{images} is missing; {remedy}.")
        with reading(images, remedy):
            self.pixels: Pixels = np.load(images, mmap_mode="r")
        with reading(meta, remedy):
            self.sha256: str = read_json(meta)[sum_key]
        with reading(labels, remedy):
            self.labels: Labels | None = np.load(labels) if labels.exists() else None
        self._file = images
        self._stamp = _stamp(images)
        self._fetching = fetching

    def __len__(self) -> int:
        return len(self.pixels)

    @cached_property
    def _ahead(self) -> dict[tuple[int, ...], Future[Tensor]]:
        return {}

    def expect(self, parts: Iterable[Tensor], device: torch.device) -> None:
        """Begin to read the parts of a later batch in the background, for a GPU."""
        if device.type == "cuda":
            self._ahead |= {_key(index): _reader().submit(self._read, index) for index in parts}

    def refuse_changed(self) -> None:
        """Raise an error if the file was replaced or written after it was opened. A touch alone is no error."""
        stamp = _stamp(self._file)
        if stamp == self._stamp:
            return
        if stamp is None or digest(self._file) != self.sha256:
            raise UserError(
                f"{self._file} changed while it was used; bring it back with `{self._fetching}` "
                "or `dvc checkout`, and run this again: it goes on from its last save."
            )
        self._stamp = stamp

    def batch(self, index: Tensor, device: torch.device) -> Tensor:
        """Images (batch, 3, R, R) in [-1, 1]."""
        ahead = self._ahead.pop(_key(index), None)
        pixels = sent(ahead.result() if ahead else self._read(index), device)
        return to_unit(pixels.permute(0, 3, 1, 2))

    def _read(self, index: Tensor) -> Tensor:
        return torch.from_numpy(self.pixels[index.cpu().numpy()])


def _key(index: Tensor) -> tuple[int, ...]:
    return tuple(index.tolist())


@cache
def _reader() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "images")


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """It changes when the file is replaced or written."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
