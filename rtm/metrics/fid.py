"""Fréchet distance of two Gaussians (Heusel et al. 2017): |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^1/2), in float64.

The trace of the root is the sum of the singular values of F1 F2^T for any factors with F^T F = S. With at least as many
images as dimensions the eigenvalues of S1 S2 are those of a symmetric matrix, by Cholesky; with fewer, F is the centred
features themselves, so that the zero eigenvalues, whose roots are mostly rounding, are never computed.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
import scipy.linalg

from rtm.core.distances import Floats, Matrix, as_array
from rtm.core.errors import UserError

ROWS = 8192  # held in float64 at a time


@dataclass(frozen=True)
class Statistics:
    """Mean and covariance of a set of features, to be compared with many others."""

    mean: Floats  # (d,)
    spread: Floats  # S (d, d); with fewer images than dimensions a factor of it (n, d), centred features / sqrt(n - 1)

    @classmethod
    def of(cls, features: Matrix, name: str = "given") -> "Statistics":
        array = as_array(features, name)
        count, width = array.shape
        if count < 2:
            raise UserError(f"A Fréchet distance needs at least 2 {name} images, not {count}.")
        mean = array.mean(axis=0, dtype=np.float64)
        if count < width:
            return cls(mean, (array - mean) / np.sqrt(count - 1))
        parts = (array[start : start + ROWS] - mean for start in range(0, count, ROWS))
        covariance = reduce(np.add, (part.T @ part for part in parts))
        covariance /= count - 1
        return cls(mean, covariance)

    @property
    def full(self) -> bool:
        """Whether `spread` is the covariance itself."""
        return len(self.spread) == len(self.mean)

    @property
    def trace(self) -> float:
        return float(np.trace(self.spread) if self.full else np.square(self.spread).sum())

    def root(self) -> Floats:
        """Some F with F^T F = S."""
        if not self.full:
            return self.spread
        values, vectors = np.linalg.eigh(self.spread)
        positive = values > values[-1] * len(values) * np.finfo(np.float64).eps
        return np.asarray((vectors[:, positive] * np.sqrt(values[positive])).T)


def frechet_distance(real: Matrix | Statistics, fake: Matrix | Statistics) -> float:
    """Fréchet distance of two sets of features, or of statistics computed before."""
    a = real if isinstance(real, Statistics) else Statistics.of(real, "real")
    b = fake if isinstance(fake, Statistics) else Statistics.of(fake, "fake")
    if a.mean.shape != b.mean.shape:
        raise UserError(f"Real and fake features differ in width, {len(a.mean)} and {len(b.mean)}: use one extractor.")
    squared = float(np.square(a.mean - b.mean).sum() + a.trace + b.trace - 2 * _trace_of_root(a, b))
    return max(squared, 0.0)  # rounding takes that of equal sets below 0


def _trace_of_root(a: Statistics, b: Statistics) -> float:
    """tr (S1 S2)^1/2."""
    if a.full and b.full:
        try:  # type 2: the eigenvalues of S1 S2 by Cholesky of S2 and the symmetric L^T S1 L
            values = scipy.linalg.eigh(a.spread, b.spread, type=2, eigvals_only=True, driver="gv", check_finite=False)
            return float(np.sqrt(np.maximum(values, 0)).sum())
        except np.linalg.LinAlgError:
            pass  # S2 is singular: a constant feature
    return float(scipy.linalg.svdvals(a.root() @ b.root().T, check_finite=False).sum())
