"""Randomness as a pure function of integers (Philox4x32-10): no state to save, the same on every device.

Latent i of seed s is the same vector for every batch size, rank and time of drawing. So a run resumes bit-exactly,
sample i of two models shares its noise, and a pool is stored as a seed and indices.
"""

import hashlib
import math

import torch
from torch import Tensor

_MASK = 0xFFFFFFFF
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_AT_ONCE = 2**25  # numbers; each temporarily takes ten times its memory


def seed_of(*parts: int | str) -> int:
    """A 63-bit seed: a hash of names and numbers."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "little") >> 1


def _multiply(multiplier: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of multiplier * x; int64 wraps around and so keeps all 64 bits of the product."""
    product = multiplier * x
    return (product >> 32) & _MASK, product & _MASK


def philox(counter: list[Tensor], key: tuple[Tensor | int, Tensor | int]) -> list[Tensor]:
    """Four 32-bit words (as int64) for each counter, of any broadcastable shapes."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = _multiply(_MULTIPLIERS[0], c0)
        high1, low1 = _multiply(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return [c0, c1, c2, c3]


def normal(seed: int, index: Tensor, size: int) -> Tensor:
    """Standard normal (len(index), size), float32; row i depends only on (seed, index[i])."""
    rows = max(1, _AT_ONCE // size)
    if len(index) <= rows:
        return _normal(seed, index, size)
    drawn = torch.empty(len(index), size, device=index.device)
    for start in range(0, len(index), rows):
        drawn[start : start + rows] = _normal(seed, index[start : start + rows], size)
    return drawn


def _normal(seed: int, index: Tensor, size: int) -> Tensor:
    blocks = torch.arange(-(-size // 4), device=index.device)[None, :]
    rows = index.to(torch.int64)[:, None]
    counter = [blocks, torch.zeros_like(blocks), rows & _MASK, rows >> 32]
    words = philox(counter, (seed & _MASK, (seed >> 32) & _MASK))
    u = [(word.to(torch.float64) + 0.5) / 2**32 for word in words]
    radii = [(-2 * torch.log(u[0])).sqrt(), (-2 * torch.log(u[2])).sqrt()]
    angles = [2 * math.pi * u[1], 2 * math.pi * u[3]]
    pairs = [f(angle) * radius for radius, angle in zip(radii, angles, strict=True) for f in (torch.cos, torch.sin)]
    return torch.stack(pairs, dim=-1).flatten(1)[:, :size].to(torch.float32)


def permutation(seed: int, size: int) -> Tensor:
    """A random order of range(size)."""
    words = philox(
        [torch.arange(size)] + [torch.zeros(size, dtype=torch.int64)] * 3,
        (seed & _MASK, (seed >> 32) & _MASK),
    )
    return torch.argsort(words[0] * 2**31 + (words[1] >> 1), stable=True)
