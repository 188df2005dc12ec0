"""The images of a training step: a pure function of (seed, step), independent of the number of processes."""

from functools import lru_cache

import torch
from torch import Tensor

from rtm.core import distributed
from rtm.core.randomness import permutation, seed_of
from rtm.data.datasets import Images


@lru_cache(maxsize=4)
def _epoch(seed: int, images: int, epoch: int) -> Tensor:
    return permutation(seed_of(seed, "epoch", epoch), images)


def batch_of(seed: int, step: int, batch: int, images: int) -> Tensor:
    """Indices of the global batch. A batch may contain the end of an epoch and the beginning of the next, so every
    epoch has each image exactly once."""
    parts: list[Tensor] = []
    at = step * batch
    missing = batch
    while missing:
        epoch, offset = divmod(at, images)
        part = _epoch(seed, images, epoch)[offset : offset + missing]
        parts.append(part)
        at += len(part)
        missing -= len(part)
    return torch.cat(parts)


def expecting(images: Images, seed: int, step: int, batch: int, accumulate: int, device: torch.device) -> Tensor:
    """The same as `batch_of`. Also read this process's images for the next step while a GPU works on this step."""
    next_batch = batch_of(seed, step + 1, batch, len(images))
    images.expect(distributed.share(next_batch).chunk(accumulate), device)
    return batch_of(seed, step, batch, len(images))
