"""How far a metric would move with other generated images: standard errors and 95 % intervals.

The real images are fixed: an interval is for the metric's expectation at this number of generated images against this
reference. So it includes FID's bias, which depends on both numbers of images.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv

from rtm.core.distances import Floats, Ints
from rtm.metrics.fid import ROWS, Statistics, crossed

Interval = tuple[float, float]
NORMAL = 1.959963984540054  # standard errors on each side of a 95 % interval
SMALLEST = 1e-10  # share of the largest eigenvalue; smaller eigenvalues are rounding
SEED = 0  # of the random images and pairs that represent a large set


def about(value: float, error: float, low: float = -np.inf, high: float = np.inf) -> Interval:
    """value +- 1.96 standard errors, cut to the possible range of the metric."""
    return max(value - NORMAL * error, low), min(value + NORMAL * error, high)


def of_share(share: float, count: float) -> Interval:
    """Wilson's interval for a share of independent images; it also works near 0 and 1."""
    z2 = NORMAL**2 / count
    middle, half = share + z2 / 2, NORMAL * np.sqrt(share * (1 - share) / count + z2 / (4 * count))
    low, high = (float(end) / (1 + z2) for end in (middle - half, middle + half))
    return (low if share > 0 else 0.0), (high if share < 1 else 1.0)


def exact_share(share: float, count: float) -> Interval:
    """Clopper's and Pearson's exact binomial interval; `count` need not be whole."""
    hits = share * count
    low = float(betaincinv(hits, count - hits + 1, 0.025)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, count - hits, 0.975)) if hits < count else 1.0
    return low, high


def frechet_error(real: Statistics, fake: Statistics) -> float:
    """The standard error of the Fréchet distance by the delta method.

    With c = x - mean, a generated image x moves the distance by its influence 2 (mean - mean_r).c + |c|^2 - c^T T c,
    where T maps the generated Gaussian to the real one. If there are not many times more images than dimensions, or if
    both Gaussians are nearly equal, two terms of second order matter. First, leaving out an image also changes T.
    Second, the influences of two images are not independent, and the variance of influences counts this part twice.
    """
    chosen, (roots, scores) = _directions(real, fake)
    centred, n = fake.features[chosen] - fake.mean, len(fake)
    pairing = roots[:, None] * roots / (roots[:, None] + roots)
    squares = np.square(scores)
    mapped = squares @ roots  # c^T T c
    alone = 2 * centred @ (fake.mean - real.mean) + np.square(centred).sum(axis=1) - mapped
    alone -= np.einsum("ij,ij->i", squares @ pairing, squares) / (2 * n)
    one, other = _pairs(len(scores))
    common = scores[one] * scores[other]
    both = 2 * np.einsum("ij,ij->i", centred[one], centred[other])
    both += np.einsum("ij,ij->i", common @ pairing, common) - (mapped[one] + mapped[other] - mapped.mean()) / 2
    variance = alone.var(ddof=1) / n
    # at least half: this is exact if only `both` matters, which `variance` counts twice
    return float(np.sqrt(max(variance - np.square(both).mean() / (2 * n**2), variance / 2)))


class _Directions(NamedTuple):
    roots: Floats  # (r,) the positive eigenvalues of (S_f S_r)^1/2
    scores: Floats  # (chosen images, r) coordinates along their directions, with variance 1


def _directions(real: Statistics, fake: Statistics) -> tuple[Ints, _Directions]:
    """The images that represent all, and their coordinates in a basis in which T is diagonal."""
    if len(fake) < len(fake.mean):  # with few images, their products are a smaller matrix
        products = crossed(fake, real)
        values, vectors = np.linalg.eigh(products @ products.T)
        positive = values > values[-1] * SMALLEST
        return np.arange(len(fake)), _Directions(
            np.sqrt(values[positive]), vectors[:, positive] * np.sqrt(len(fake) - 1)
        )
    values, vectors = np.linalg.eigh(real.factor @ fake.covariance @ real.factor.T)
    positive = values > values[-1] * SMALLEST
    roots = np.sqrt(values[positive])
    chosen = np.sort(np.random.default_rng(SEED).permutation(len(fake))[:ROWS])
    whitening = real.factor.T @ vectors[:, positive] / roots
    return chosen, _Directions(roots, (fake.features[chosen] - fake.mean) @ whitening)


def _pairs(count: int) -> tuple[Ints, Ints]:
    """As many pairs of different images as there are images."""
    one = np.arange(count)
    return one, (one + np.random.default_rng(SEED).integers(1, count, count)) % count
