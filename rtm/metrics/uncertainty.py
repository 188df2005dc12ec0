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


def about(
    value: float,
    error: float,  # standard error
    low: float = -np.inf,  # the possible range of the metric
    high: float = np.inf,
) -> Interval:
    """value +- 1.96 standard errors, cut to the possible range."""
    half = NORMAL * error
    return max(value - half, low), min(value + half, high)


def of_share(share: float, count: float) -> Interval:
    """Wilson's interval for a share of independent images; it also works near 0 and 1."""
    z2 = NORMAL**2 / count
    middle = share + z2 / 2
    variance = share * (1 - share) / count
    half = NORMAL * np.sqrt(variance + z2 / (4 * count))
    low = float(middle - half) / (1 + z2) if share > 0 else 0.0
    high = float(middle + half) / (1 + z2) if share < 1 else 1.0
    return low, high


def exact_share(share: float, count: float) -> Interval:
    """Clopper's and Pearson's exact binomial interval; `count` need not be whole."""
    hits = share * count
    low = 0.0
    high = 1.0
    if hits > 0:
        low = float(betaincinv(hits, count - hits + 1, 0.025))
    if hits < count:
        high = float(betaincinv(hits + 1, count - hits, 0.975))
    return low, high


def frechet_error(real: Statistics, fake: Statistics) -> float:
    """The standard error of the Fréchet distance by the delta method.

    With c = x - mean, a generated image x moves the distance by its influence 2 (mean - mean_r).c + |c|^2 - c^T T c,
    where T maps the generated Gaussian to the real one. If there are not many times more images than dimensions, or if
    both Gaussians are nearly equal, two terms of second order matter. First, leaving out an image also changes T.
    Second, the influences of two images are not independent, and the variance of influences counts this part twice.
    """
    rows, (roots, scores) = _directions(real, fake)
    n = len(fake)
    centred = fake.features[rows] - fake.mean
    squares = np.square(scores)
    mapped = squares @ roots  # c^T T c
    column = roots[:, None]
    pairing = column * roots / (column + roots)
    alone = 2 * centred @ (fake.mean - real.mean)  # the influence of one image
    alone = alone + np.square(centred).sum(axis=1) - mapped
    alone -= _row_products(squares @ pairing, squares) / (2 * n)
    one, other = _pairs(len(scores))
    common = scores[one] * scores[other]
    of_pairs = mapped[one] + mapped[other] - mapped.mean()
    both = 2 * _row_products(centred[one], centred[other])  # the influence of two images together
    both += _row_products(common @ pairing, common) - of_pairs / 2
    variance = alone.var(ddof=1) / n
    counted_twice = np.square(both).mean() / (2 * n**2)
    # at least half: this is exact if only `both` matters, which `variance` counts twice
    return float(np.sqrt(max(variance - counted_twice, variance / 2)))


def _row_products(a: Floats, b: Floats) -> Floats:
    """The scalar product of each row of a with the same row of b."""
    return np.asarray(np.einsum("ij,ij->i", a, b))


class _Directions(NamedTuple):
    roots: Floats  # (r,) the positive eigenvalues of (S_f S_r)^1/2
    scores: Floats  # (chosen images, r) coordinates along their directions, with variance 1


def _directions(real: Statistics, fake: Statistics) -> tuple[Ints, _Directions]:
    """The images that represent all, and their coordinates in a basis in which T is diagonal."""
    few = len(fake) < len(fake.mean)
    if few:  # their products are a smaller matrix
        products = crossed(fake, real)
        values, vectors = np.linalg.eigh(products @ products.T)
    else:
        mapped = real.factor @ fake.covariance @ real.factor.T
        values, vectors = np.linalg.eigh(mapped)
    positive = values > values[-1] * SMALLEST
    roots = np.sqrt(values[positive])
    vectors = vectors[:, positive]
    if few:
        scores = vectors * np.sqrt(len(fake) - 1)
        return np.arange(len(fake)), _Directions(roots, scores)
    order = np.random.default_rng(SEED).permutation(len(fake))
    rows = np.sort(order[:ROWS])
    whitening = real.factor.T @ vectors / roots
    scores = (fake.features[rows] - fake.mean) @ whitening
    return rows, _Directions(roots, scores)


def _pairs(count: int) -> tuple[Ints, Ints]:
    """As many pairs of different images as there are images."""
    one = np.arange(count)
    steps = np.random.default_rng(SEED).integers(1, count, count)
    return one, (one + steps) % count
