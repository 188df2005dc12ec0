"""Fréchet distance: against definitions, trusted packages and cases with a known answer."""

import numpy as np
import pytest
import scipy.linalg
import torch
from numpy.typing import NDArray
from support.intervals import images
from torch_fidelity.metric_fid import fid_features_to_statistics, fid_statistics_to_metric

from rtm.core.errors import UserError
from rtm.metrics import fid
from rtm.metrics.fid import Statistics, frechet_distance, frechet_floor

Array = NDArray[np.floating]


def correlated(rng: np.random.Generator, count: int, width: int) -> Array:
    mixing = np.random.default_rng(99).normal(size=(width, width)) / np.sqrt(width)
    return np.asarray(np.maximum(rng.normal(size=(count, width)) @ mixing + 0.3, 0), np.float32)


def by_definition(a: Array, b: Array) -> float:
    """With scipy.linalg.sqrtm, in float64."""
    a = a.astype(np.float64)
    b = b.astype(np.float64)
    s1 = np.cov(a, rowvar=False)
    s2 = np.cov(b, rowvar=False)
    root = scipy.linalg.sqrtm(s1 @ s2).real
    return float(np.square(a.mean(0) - b.mean(0)).sum() + np.trace(s1 + s2 - 2 * root))


def by_torch_fidelity(a: Array, b: Array) -> float:
    statistics = [fid_features_to_statistics(torch.from_numpy(x)) for x in (a, b)]
    return float(fid_statistics_to_metric(*statistics, verbose=False)["frechet_inception_distance"])


def test_equals_the_definition_and_torch_fidelity(rng: np.random.Generator) -> None:
    a = correlated(rng, 400, 48)
    b = 1.3 * correlated(rng, 500, 48) + np.float32(0.1)
    found = frechet_distance(a, b)
    assert found == pytest.approx(by_definition(a, b), rel=1e-9)
    assert found == pytest.approx(by_torch_fidelity(a, b), rel=1e-5)  # its means are float32
    assert found == pytest.approx(frechet_distance(b, a), rel=1e-9)


@pytest.mark.parametrize(("n1", "n2"), [(20, 20), (20, 30), (20, 500), (500, 20), (64, 64), (65, 64), (300, 300)])
def test_moved_and_scaled_images_have_the_known_distance(rng: np.random.Generator, n1: int, n2: int) -> None:
    """fake = c real + shift: |(c - 1) m + shift|^2 + (c - 1)^2 tr S, with more or fewer images than dimensions."""
    real = correlated(rng, n1, 64).astype(np.float64)
    repeated = np.concatenate([real] * -(-n2 // n1))[:n2] if n2 % n1 == 0 else real
    shift = rng.normal(size=64)
    c = 1.5
    fake = c * repeated + shift
    spread = [np.square(x - x.mean(0)).sum() / (len(x) - 1) for x in (real, repeated)]
    moved = np.square((c - 1) * real.mean(0) + shift).sum()
    ratio = np.sqrt(spread[1] / spread[0])  # repeated images have a slightly smaller unbiased covariance
    expected = moved + spread[0] * (c * ratio - 1) ** 2
    assert frechet_distance(real, fake) == pytest.approx(expected, rel=1e-9)


def test_few_images_are_right_where_the_eigenvalues_of_the_product_are_not(rng: np.random.Generator) -> None:
    a = correlated(rng, 12, 400).astype(np.float64)
    b = correlated(rng, 400, 400)[:15].astype(np.float64)
    centred = [(x - x.mean(0)) / np.sqrt(len(x) - 1) for x in (a, b)]
    trace = np.linalg.svd(centred[0] @ centred[1].T, compute_uv=False).sum()
    spread = sum(np.square(x).sum() for x in centred)
    expected = np.square(a.mean(0) - b.mean(0)).sum() + spread - 2 * trace
    assert frechet_distance(a, b) == pytest.approx(float(expected), rel=1e-12)
    assert np.isfinite(frechet_distance(a[:2], b[:2]))


@pytest.mark.parametrize(
    ("n1", "n2"), [(2, 3), (5, 400), (400, 5), (47, 48), (48, 47), (40, 2000), (48, 48), (49, 400), (400, 500)]
)
def test_features_and_covariances_give_one_distance_at_every_shape(
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    n1: int,
    n2: int,
) -> None:
    a = correlated(rng, n1, 48)
    b = 1.2 * correlated(rng, n2, 48)
    found = frechet_distance(a, b)
    constant = [np.concatenate([x, np.ones((len(x), 1), np.float32)], axis=1) for x in (a, b)]  # Cholesky fails
    for few in (True, False):
        monkeypatch.setattr(fid, "_few", lambda *_, few=few: few)
        assert frechet_distance(a, b) == pytest.approx(found, rel=1e-12)
        assert frechet_distance(*constant) == pytest.approx(found, rel=1e-9)


def test_few_images_need_no_covariance(rng: np.random.Generator) -> None:
    few = Statistics.of(correlated(rng, 10, 64))
    many = Statistics.of(correlated(rng, 300, 64))
    frechet_distance(few, many)
    assert "covariance" not in vars(many)
    frechet_distance(many, many)
    assert "covariance" in vars(many)


def test_the_same_images_are_at_zero(rng: np.random.Generator) -> None:
    for count in (30, 60, 100, 200, 300, 400):  # without a limit, rounding makes some distances negative
        a = correlated(rng, count, 64)
        assert 0 <= frechet_distance(a, a) < 1e-7


def test_statistics_can_be_kept_and_are_the_same_in_pieces(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = correlated(rng, 500, 32)
    b = correlated(rng, 400, 32)
    whole = frechet_distance(a, b)
    assert frechet_distance(Statistics.of(a), torch.from_numpy(b)) == whole
    monkeypatch.setattr(fid, "ROWS", 64)
    assert frechet_distance(a, b) == pytest.approx(whole, rel=1e-12)


def test_mistakes_are_named(rng: np.random.Generator) -> None:
    a = correlated(rng, 20, 8)
    with pytest.raises(UserError, match="differ in width"):
        frechet_distance(a, a[:, :4])
    with pytest.raises(UserError, match="at least 2 fake images"):
        frechet_distance(a, a[:1])
    with pytest.raises(UserError, match="NaN"):
        frechet_distance(a, np.full_like(a, np.nan))


def test_the_floor_is_what_real_images_score_against_others() -> None:
    """Images as good as real ones score about this; fewer images score more."""
    random = np.random.default_rng(6)
    real = images(random, 1000, 16)
    fresh = frechet_distance(real, images(random, 100, 16))
    floor, sizes = frechet_floor(Statistics.of(real), 100)
    assert sizes == (100, 900)
    assert floor == pytest.approx(fresh, rel=0.3)
    halves, sizes = frechet_floor(Statistics.of(real[:101]), 100)
    assert sizes == (50, 51)
    assert halves > 2 * floor
    assert frechet_floor(Statistics.of(real), 100)[0] == floor
