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
        sums, squares = np.zeros(len(array)), 0.0
        for i, j, values in _tiles(points, points, symmetric=True):
            if i == j:
                values.fill_diagonal_(0)
            else:
                sums[j] += _summed(values, 0)
            sums[i] += _summed(values, 1)
            squares += float(values.square_().sum(dtype=torch.float64)) * (1 if i == j else 2)
        return cls(points, sums, squares)

    def __len__(self) -> int:
        return len(self.sums)

    @property
    def mean(self) -> float:
        return float(self.sums.sum() / (len(self) * (len(self) - 1)))


def kernel_distance(real: Matrix | Kernel, fake: Matrix | Kernel) -> tuple[float, float]:
    """KID and its standard error. Only the generated images count as random; the real images are fixed."""
    a = real if isinstance(real, Kernel) else Kernel.of(real, "real")
    b = fake if isinstance(fake, Kernel) else Kernel.of(fake, "fake")
    if a.features.shape[1] != b.features.shape[1]:
        widths = f"{a.features.shape[1]} and {b.features.shape[1]}"
        raise UserError(f"Real and fake features differ in width, {widths}: use one extractor.")
    across = np.zeros(len(b))  # the mean kernel of each fake with the real ones
    for i, _, values in _tiles(b.features, a.features, symmetric=False):
        across[i] += _summed(values, 1) / len(a)
    return a.mean + b.mean - 2 * float(across.mean()), _error(b, across)


def _error(fake: Kernel, across: Floats) -> float:
    """The standard error of a U-statistic: KID = const + mean of g(x, y) = k(x, y) - across(x) - across(y) over pairs.

    g is the sum of its mean, a(x) + a(y), and a rest b(x, y) whose mean over x or y is zero. So the variance of KID is
    4 var(a) / n + 2 var(b) / (n (n - 1)). If both sets are alike, the second term is the larger one. `across` does not
    change b.
    """
    n, rows = len(fake), fake.sums / (len(fake) - 1)
    spread = np.square(rows - rows.mean()).sum()
    rest = (fake.squares / 2 - n * (n - 1) / 2 * fake.mean**2 - (n - 1) ** 2 / (n - 2) * spread) / (n * (n - 3) / 2)
    of_single = ((n - 1) / (n - 2) * rows - across).var(ddof=1) - rest / (n - 2)  # without the part of `rest`
    return float(np.sqrt(4 * max(of_single, 0.0) / n + 2 * max(rest, 0.0) / (n * (n - 1))))


def _tiles(a: Tensor, b: Tensor, symmetric: bool) -> Iterator[tuple[slice, slice, Tensor]]:
    """The kernel of all pairs, one tile at a time. If it is symmetric, tiles below the diagonal are left out."""
    edge = EDGE[a.device.type]
    with torch.inference_mode(), full_precision():
        for i in blocks(len(a), edge):
            for j in blocks(len(b), edge):
                if not symmetric or i.start <= j.start:
                    out = torch.empty(i.stop - i.start, j.stop - j.start, device=a.device)
                    values = product(a[i], b[j], out).div_(a.shape[1]).add_(1)
                    yield i, j, values.pow_(3)


def _summed(values: Tensor, dim: int) -> Floats:
    return np.asarray(values.sum(dim=dim, dtype=torch.float64).cpu().numpy())
