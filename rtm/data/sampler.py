"""Which images a step trains on: a pure function of (seed, step), whatever the number of processes."""

from functools import lru_cache

import torch
from torch import Tensor

from rtm.core.randomness import permutation, seed_of


@lru_cache(maxsize=4)
def _epoch(seed: int, images: int, epoch: int) -> Tensor:
    return permutation(seed_of(seed, "epoch", epoch), images)


def batch_of(seed: int, step: int, batch: int, images: int) -> Tensor:
    """Indices of the global batch; batches run over epoch borders, so that every epoch sees each image once."""
    parts, at, missing = [], step * batch, batch
    while missing:
        epoch, offset = divmod(at, images)
        parts.append(_epoch(seed, images, epoch)[offset : offset + missing])
        at, missing = at + len(parts[-1]), missing - len(parts[-1])
    return torch.cat(parts)
