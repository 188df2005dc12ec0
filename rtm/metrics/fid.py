"""Fréchet distance of two Gaussians (Heusel et al. 2017): |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^1/2), in float64.

The trace of the root is the sum of the singular values of F1 F2^T for any factors with F^T F = S. The centred features
are such factors. If one set is small, F1 F2^T is small, and no covariance is needed. This also leaves out the zero
eigenvalues of a small set's covariance, whose roots would be mostly rounding. If both sets are large, a Cholesky
decomposition gives a symmetric matrix with the eigenvalues of S1 S2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from rtm.core.distances import Floats, Matrix, as_array
from rtm.core.errors import UserError

ROWS = 8192  # rows that are held in float64 at a time


@dataclass(frozen=True)
class Statistics:
    """A set of features and its mean, for comparisons with many sets. Covariance and factor are computed once, on
    first use."""

    features: NDArray[np.floating]  # (n, d), as given
    mean: Floats  # (d,)

    @classmethod
    def of(cls, features: Matrix, name: str = "given") -> "Statistics":
        array = as_array(features, name)
        if len(array) < 2:
            raise UserError(f"A Fréchet distance needs at least 2 {name} images, not {len(array)}.")
        return cls(array, array.mean(axis=0, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.features)

    def centred(self) -> Iterator[Floats]:
        """The features minus their mean, in pieces."""
        for start in range(0, len(self), ROWS):
            yield self.features[start : start + ROWS] - self.mean

    @cached_property
    def trace(self) -> float:
        squares = sum(np.square(part).sum() for part in self.centred())
        return float(squares / (len(self) - 1))

    @cached_property
    def covariance(self) -> Floats:
        covariance: Floats = reduce(np.add, (part.T @ part for part in self.centred()))
        covariance /= len(self) - 1
        return covariance

    @cached_property
    def factor(self) -> Floats:
        """F with F^T F = S: the centred features or, if there are more features than dimensions, a square root of S."""
        if len(self) < len(self.mean):
            centred = np.concatenate(list(self.centred()))
            return np.asarray(centred / np.sqrt(len(self) - 1))
        values, vectors = np.linalg.eigh(self.covariance)
        rounding = np.finfo(np.float64).eps
        positive = values > values[-1] * len(values) * rounding
        root = vectors[:, positive] * np.sqrt(values[positive])
        return np.asarray(root.T)


def frechet_distance(real: Matrix | Statistics, fake: Matrix | Statistics) -> float:
    """Fréchet distance of two sets of features, or of their statistics."""
    a = real if isinstance(real, Statistics) else Statistics.of(real, "real")
    b = fake if isinstance(fake, Statistics) else Statistics.of(fake, "fake")
    if a.mean.shape != b.mean.shape:
        raise UserError(f"Real and fake features differ in width, {len(a.mean)} and {len(b.mean)}: use one extractor.")
    moved = np.square(a.mean - b.mean).sum()
    root = _trace_of_root(a, b)
    squared = float(moved + a.trace + b.trace - 2 * root)
    return max(squared, 0.0)  # for equal sets, rounding may give less than 0


def frechet_floor(real: Statistics, count: int) -> tuple[float, tuple[int, int]]:
    """The FID of `count` real images against the other real images, and the sizes of both parts.

    FID grows when there are fewer images, so even perfect images score about this floor. If there are fewer than
    2 `count` real images, one half is compared with the other half. Then both parts are smaller than the compared
    sets, and the floor is higher.
    """
    few = min(count, len(real) // 2)
    order = np.random.default_rng(0).permutation(len(real))
    some = real.features[np.sort(order[:few])]
    others = real.features[np.sort(order[few:])]
    return frechet_distance(others, some), (few, len(others))


def _trace_of_root(a: Statistics, b: Statistics) -> float:
    """tr (S1 S2)^1/2."""
    small, large = sorted((a, b), key=len)
    if len(small) >= len(small.mean):
        try:  # type 2: eigenvalues of S1 S2, by the Cholesky factor L of S2 and the symmetric L^T S1 L
            values = scipy.linalg.eigh(
                a.covariance, b.covariance, type=2, eigvals_only=True, driver="gv", check_finite=False
            )
            return float(np.sqrt(np.maximum(values, 0)).sum())
        except np.linalg.LinAlgError:
            pass  # S2 is singular, for example because a feature is constant
    return float(scipy.linalg.svdvals(crossed(small, large), check_finite=False).sum())


def crossed(small: Statistics, large: Statistics) -> Floats:
    """F1 F2^T, with one row for each row of the small set's factor."""
    if not _few(small, large):
        return np.asarray(small.factor @ large.factor.T)
    products = np.concatenate([small.factor @ part.T for part in large.centred()], axis=1)
    return np.asarray(products / np.sqrt(len(large) - 1))


def _few(small: Statistics, large: Statistics) -> bool:
    """Whether using the large set's features as its factor takes fewer operations than a root of its covariance."""
    n = len(small)
    m = len(large)
    d = len(small.mean)
    with_features = n * m * (2 * d + 4 * n)
    with_a_root = m * d**2 + 10 * d**3
    return with_features < with_a_root
