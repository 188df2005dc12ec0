"""Intervals against the truth: many sets of images from known Gaussians, all compared with one reference."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binomtest
from support.intervals import Found, images, right

from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.inception_score import inception_score, inception_score_error
from rtm.metrics.kid import Kernel, kernel_distance
from rtm.metrics.prdc import membership
from rtm.metrics.prdc_error import prdc_intervals
from rtm.metrics.uncertainty import about, exact_share, frechet_error, of_share

CLASSES = 6


def distances_of(real: NDArray[np.float32], sets: Iterator[NDArray[np.float32]]) -> list[Found]:
    statistics = Statistics.of(real)
    kernel = Kernel.of(real)
    seen = list[Found]()
    for features in sets:
        fake = Statistics.of(features)
        fid = frechet_distance(statistics, fake)
        error = frechet_error(statistics, fake)
        kid, kid_error = kernel_distance(kernel, features)
        score = inception_score(features[:, :CLASSES], 2)[0]
        score_error = inception_score_error(features[:, :CLASSES], 2)
        intervals = {"fid": about(fid, error), "kid": about(kid, kid_error), "is": about(score, score_error)}
        seen.append(({"fid": fid, "kid": kid, "is": score}, intervals))
    return seen


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize("like", [0.8, 0.95])
@pytest.mark.parametrize(("width", "count"), [(64, 154), (24, 576)])
def test_intervals_of_fid_kid_and_inception_score_are_right(width: int, count: int, like: float) -> None:
    """There are 2.4 or 24 images for each dimension, and real and generated images may be nearly equal."""
    random = np.random.default_rng(1)
    real = images(random, 800, width)
    seen = distances_of(real, (images(random, count, width, like) for _ in range(400)))
    right(seen, ("fid", "is", "kid") if like < 0.9 else ("fid", "is"))  # KID of nearly equal sets is skewed


@pytest.mark.slow(seconds=3)
def test_few_images_in_many_dimensions_have_an_interval_too() -> None:
    """One covariance or both have a rank below the number of dimensions. The widths are right within a third."""
    random = np.random.default_rng(3)
    for count, reals in ((40, 500), (40, 30), (200, 30)):
        real = Statistics.of(images(random, reals, 64))
        sets = [Statistics.of(images(random, count, 64, 0.8)) for _ in range(200)]
        spread = np.std([frechet_distance(real, fake) for fake in sets])
        assert np.mean([frechet_error(real, fake) for fake in sets]) == pytest.approx(spread, rel=0.33)


def test_the_error_does_not_depend_on_the_path_to_it() -> None:
    """With added constant features there are more dimensions than images, so products of images replace covariances."""
    random = np.random.default_rng(4)
    real, fake = (images(random, 150, 48, like) for like in (1.0, 0.8))
    padded = [Statistics.of(np.pad(each, ((0, 0), (0, 200)))) for each in (real, fake)]
    found = frechet_error(Statistics.of(real), Statistics.of(fake))
    assert frechet_error(*padded) == pytest.approx(found, rel=1e-6)


def test_intervals_at_the_ends() -> None:
    """Shares of all or none of the images, equal sets, and sets that are too small to be cut into quarters."""
    for share, bounds in ((0.0, (0, 0.05)), (1.0, (0.95, 1))):
        for interval in (of_share(share, 100), exact_share(share, 100)):
            assert bounds[0] <= interval[0] <= share <= interval[1] <= bounds[1]
            assert interval[0] < interval[1]
    random = np.random.default_rng(5)
    real = images(random, 60, 6)
    members = membership(real, real, k=3)
    same = prdc_intervals(real, real, members, strict=True)
    assert all(
        low <= value <= high for value, (low, high) in zip(members.metrics().values(), same.values(), strict=True)
    )
    assert same["coverage"][1] == 1
    assert same["coverage"][0] > 0.9
    far = prdc_intervals(real, real + 100, membership(real, real + 100, k=3), strict=True)
    assert far["recall"][0] == far["coverage"][0] == 0
    assert far["recall"][1] < 0.1
    few = prdc_intervals(real, real[:15], membership(real, real[:15], k=3), strict=True)
    assert set(few) == {"precision", "density"}


def test_an_exact_interval_is_that_of_scipy() -> None:
    for hits, count in ((0, 9), (3, 9), (9, 9), (480, 1000)):
        expected = binomtest(hits, count).proportion_ci(0.95, "exact")
        assert exact_share(hits / count, count) == pytest.approx((expected.low, expected.high), abs=1e-12)
