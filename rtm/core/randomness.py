"""Randomness as a pure function of integers (Philox4x32-10): no state to save, the same on every device.

Latent i of seed s is the same vector for every batch size, process and time. So a run resumes bit for bit, sample i of
two models has the same noise, and a pool is stored as a seed and indices.
"""

import hashlib
import math
from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from rtm.core.devices import sent

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_AT_ONCE = 2**25  # numbers that are drawn at once; while drawing, they take ten times their memory


def seed_of(*parts: int | str) -> int:
    """A 63-bit seed: a hash of names and numbers."""
    digest = hashlib.sha256(repr(parts).encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def keys_of(seed: int) -> list[int]:
    """The two keys of each of Philox's ten rounds."""
    keys = []
    for turn in range(10):
        for half in range(2):
            key = (seed >> 32 * half) + turn * _WEYL[half]
            keys.append(key & _MASK)
    return keys


def philox(even: Tensor, odd: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Philox from words (0, 2) and (1, 3) of the counters to the same words of the result; keys are (10, 2, ...).

    Words have 32 bits, stored in int64; products wrap around and so keep all 64 bits. Two words share an operation,
    because a GPU's launches cost more than the arithmetic."""
    for key in keys:
        product = torch.empty_like(even)
        torch.mul(even[0], _MULTIPLIERS[0], out=product[1])
        torch.mul(even[1], _MULTIPLIERS[1], out=product[0])
        even = (product >> 32).bitwise_xor_(odd).bitwise_xor_(key).bitwise_and_(_MASK)
        odd = product
    return even, odd & _MASK


def normal(seed: int, index: Tensor, size: int) -> Tensor:
    """Standard normal (len(index), size), float32; row i depends only on (seed, index[i])."""
    return normals([(seed, size)], index)[0].contiguous()


def normals(streams: Sequence[tuple[int, int]], index: Tensor) -> list[Tensor]:
    """The same as `normal` for each (seed, size), in one draw, as views of one tensor. A column has four numbers."""
    if not streams:
        return []
    seeds = [seed for seed, _ in streams]
    sizes = [size for _, size in streams]
    *starts, end = accumulate((-(-size // 4) for size in sizes), initial=0)
    keys_by_seed = [keys_of(seed) for seed in seeds]
    table = torch.tensor([starts, *zip(*keys_by_seed, strict=True)])  # (21, seeds): first column, keys
    table = sent(table, index.device)
    column = torch.arange(end, device=index.device)
    which = torch.bucketize(column, table[0, 1:], right=True)  # which seed
    place = column - table[0][which]
    keys = table[1:, which].view(10, 2, 1, -1)
    rows_at_once = max(1, _AT_ONCE // (4 * end))
    parts = [_normal(rows, place, keys) for rows in index.split(rows_at_once)]
    numbers = parts[0] if len(parts) == 1 else torch.cat(parts)
    views = []
    for start, size in zip(starts, sizes, strict=True):
        first = 4 * start
        views.append(numbers[:, first : first + size])
    return views


def _normal(index: Tensor, place: Tensor, keys: Tensor) -> Tensor:
    rows = index.to(torch.int64)[:, None]
    even = torch.stack(torch.broadcast_tensors(place, rows & _MASK))
    odd = torch.stack([torch.zeros_like(rows), rows >> 32])
    even, odd = philox(even, odd, keys)
    radii = (-2 * torch.log(_uniform(even))).sqrt()
    angles = 2 * math.pi * _uniform(odd)
    x = torch.cos(angles) * radii
    y = torch.sin(angles) * radii
    columns = torch.stack([x[0], y[0], x[1], y[1]], dim=-1)
    return columns.flatten(1).to(torch.float32)


def _uniform(words: Tensor) -> Tensor:
    """Words of 32 bits as numbers in (0, 1), float64."""
    return (words.to(torch.float64) + 0.5) / 2**32


def permutation(seed: int, size: int) -> Tensor:
    """A random order of range(size)."""
    counter = torch.arange(size)
    even = torch.stack([counter, torch.zeros_like(counter)])
    keys = torch.tensor(keys_of(seed)).view(10, 2, 1)
    even, odd = philox(even, torch.zeros_like(even), keys)
    order = even[0] * 2**31 + (odd[0] >> 1)
    return torch.argsort(order, stable=True)
