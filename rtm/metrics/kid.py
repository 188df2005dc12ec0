"""Kernel distance KID (Bińkowski et al. 2018): the unbiased squared MMD under k(x, y) = (x.y / d + 1)^3.

It uses all pairs of images, so no choice of subsets changes it. Its expectation does not depend on the number of
images. For equal distributions the expectation is zero, so single values are often negative.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rtm.core.devices import best_device
from rtm.core.distances import EDGE, Floats, Matrix, as_array, blocks, full_precision, product
from rtm.core.errors import UserError


@dataclass(frozen=True)
class Kernel:
    """The kernel values between the images of one set."""

    features: Tensor  # (n, d) float32, on the device
    sums: Floats  # (n,) of each image: the sum over all other images
    squares: float  # the sum of the squares over all pairs, each pair in both orders

    @classmethod
    def of(cls, features: Matrix, name: str = "given") -> "Kernel":
        array = as_array(features, name)
        if len(array) < 4:
            raise UserError(f"A kernel distance needs at least 4 {name} images, not {len(array)}.")
        points = torch.from_numpy(array.astype(np.float32)).to(best_device())
        sums = np.zeros(len(array))
        squares = 0.0
        for i, j, values in _tiles(points, points, symmetric=True):
            times = 1
            if i == j:
                values.fill_diagonal_(0)
            else:  # the tile below the diagonal is the same one
                times = 2
                sums[j] += _sums(values, 0)
            sums[i] += _sums(values, 1)
            squares += float(values.square_().sum(dtype=torch.float64)) * times
        return cls(points, sums, squares)

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def mean(self) -> float:
        pairs = len(self) * (len(self) - 1)
        return float(self.sums.sum() / pairs)


def kernel_distance(real: Matrix | Kernel, fake: Matrix | Kernel) -> tuple[float, float]:
    """KID and its standard error. Only the generated images count as random; the real images are fixed."""
    a = real if isinstance(real, Kernel) else Kernel.of(real, "real")
    b = fake if isinstance(fake, Kernel) else Kernel.of(fake, "fake")
    width = a.features.shape[1]
    other = b.features.shape[1]
    if width != other:
        raise UserError(f"Real and fake features differ in width, {width} and {other}: use one extractor.")
    across = np.zeros(len(b))  # the mean kernel of each fake with the real ones
    for i, _, values in _tiles(b.features, a.features, symmetric=False):
        across[i] += _sums(values, 1) / len(a)
    distance = a.mean + b.mean - 2 * float(across.mean())
    return distance, _error(b, across)


def _error(fake: Kernel, across: Floats) -> float:
    """The standard error of a U-statistic: KID = const + mean of g(x, y) = k(x, y) - across(x) - across(y) over pairs.

    g is the sum of its mean, a(x) + a(y), and a rest b(x, y) whose mean over x or y is zero. So the variance of KID is
    4 var(a) / n + 2 var(b) / (n (n - 1)). If both sets are alike, the second term is the larger one. `across` does not
    change b.
    """
    n = len(fake)
    rows = fake.sums / (n - 1)
    spread = np.square(rows - rows.mean()).sum()
    of_pairs = fake.squares / 2 - n * (n - 1) / 2 * fake.mean**2
    of_rest = of_pairs - (n - 1) ** 2 / (n - 2) * spread
    var_b = of_rest / (n * (n - 3) / 2)
    single = (n - 1) / (n - 2) * rows - across
    var_a = single.var(ddof=1) - var_b / (n - 2)
    first = 4 * max(var_a, 0.0) / n
    second = 2 * max(var_b, 0.0) / (n * (n - 1))
    return float(np.sqrt(first + second))


def _tiles(a: Tensor, b: Tensor, symmetric: bool) -> Iterator[tuple[slice, slice, Tensor]]:
    """The kernel of all pairs, one tile at a time. If it is symmetric, tiles below the diagonal are left out."""
    edge = EDGE[a.device.type]
    with torch.inference_mode(), full_precision():
        for i in blocks(len(a), edge):
            for j in blocks(len(b), edge):
                if symmetric and i.start > j.start:
                    continue
                out = torch.empty(i.stop - i.start, j.stop - j.start, device=a.device)
                values = product(a[i], b[j], out)
                yield i, j, values.div_(a.shape[1]).add_(1).pow_(3)


def _sums(values: Tensor, dim: int) -> Floats:
    sums = values.sum(dim=dim, dtype=torch.float64)
    return np.asarray(sums.cpu().numpy())
