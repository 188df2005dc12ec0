"""Precision, recall, density and coverage: every decision is the same as with float64 differences."""

import contextlib
import io
from collections.abc import Callable
from functools import cache

import numpy as np
import prdc as published
import pytest
import torch
from numpy.typing import NDArray
from torch_fidelity.metric_prc import calculate_precision_recall_full

from rtm.core import distances
from rtm.core.errors import UserError
from rtm.metrics.prdc import membership, prdc

Array = NDArray[np.floating]
Case = Callable[[np.random.Generator], tuple[Array, Array]]


def squared(a: Array, b: Array) -> Array:
    return np.stack([np.square(row - b.astype(np.float64)).sum(axis=1) for row in a.astype(np.float64)])


@cache
def references(case: Case) -> tuple[Array, ...]:
    """The two sets of a case, and all squared distances, from float64 differences: sorted within each set, and between
    the sets."""
    real, fake = case(np.random.default_rng(0))
    return real, fake, np.sort(squared(real, real), axis=1), np.sort(squared(fake, fake), axis=1), squared(real, fake)


def obvious(case: Case, k: int, strict: bool) -> dict[str, float]:
    """The metrics by their definition."""
    inside = np.less if strict else np.less_equal
    _, fake, among_real, among_fake, cross = references(case)
    real_radii = among_real[:, k]
    fake_radii = among_fake[:, k]
    in_real = inside(cross, real_radii[:, None])
    in_fake = inside(cross, fake_radii[None])
    return {
        "precision": in_real.any(axis=0).mean(),
        "recall": in_fake.any(axis=1).mean(),
        "density": in_real.sum() / (k * len(fake)),
        "coverage": in_real.any(axis=1).mean(),
    }


def gaussian(rng: np.random.Generator) -> tuple[Array, Array]:
    return rng.normal(size=(700, 24)).astype(np.float32), 0.9 * rng.normal(size=(900, 24)).astype(np.float32)


def lattice(rng: np.random.Generator) -> tuple[Array, Array]:
    """Whole numbers: there are many ties, and float64 is exact."""
    return rng.integers(0, 3, (500, 5)).astype(np.float32), rng.integers(0, 3, (600, 5)).astype(np.float32)


def duplicates(rng: np.random.Generator) -> tuple[Array, Array]:
    x = rng.normal(size=(300, 32)).astype(np.float32)
    return np.repeat(x, 3, axis=0), np.concatenate([x[:200]] * 4)


def constant(rng: np.random.Generator) -> tuple[Array, Array]:
    return np.ones((300, 8), np.float32), np.ones((250, 8), np.float32)


def tight_clusters(rng: np.random.Generator) -> tuple[Array, Array]:
    """The spread is 1e-3 of the distance between centres, so float32 products alone get most decisions wrong."""
    centres = rng.normal(size=(8, 256))
    first, second = (
        (centres[rng.integers(0, 8, 500)] + spread * rng.normal(size=(500, 256))).astype(np.float32)
        for spread in (1e-3, 1.02e-3)
    )
    return first, second


def tighter_clusters(rng: np.random.Generator) -> tuple[Array, Array]:
    """The spread is 1e-8: too small even for a float64 product about the common mean."""
    centres = rng.normal(size=(4, 64))
    first, second = (centres[rng.integers(0, 4, 400)] + 1e-8 * rng.normal(size=(400, 64)) for _ in range(2))
    return first, second


def far_from_zero(rng: np.random.Generator) -> tuple[Array, Array]:
    first, second = ((1e4 + rng.normal(size=(400, 16))).astype(np.float32) for _ in range(2))
    return first, second


def collapsed(rng: np.random.Generator) -> tuple[Array, Array]:
    return rng.normal(size=(500, 16)), rng.normal(size=16) + 1e-7 * rng.normal(size=(400, 16))


def huge_and_tiny(rng: np.random.Generator) -> tuple[Array, Array]:
    return 1e25 * rng.normal(size=(200, 8)), 1e-25 * rng.normal(size=(200, 8))


def one_dimension(rng: np.random.Generator) -> tuple[Array, Array]:
    return rng.integers(0, 40, (200, 1)).astype(np.float64), rng.integers(0, 40, (150, 1)).astype(np.float64)


CASES = [gaussian, lattice, duplicates, constant, tight_clusters, tighter_clusters, far_from_zero, collapsed]
CASES += [huge_and_tiny, one_dimension]


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
@pytest.mark.parametrize("edge", [128, 1024])
def test_every_decision_equals_float64(
    case: Case,
    strict: bool,
    edge: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distances, "EDGE", {"cpu": edge})
    real, fake, *_ = references(case)
    for k in (1, 5):
        assert prdc(real, fake, k=k, strict=strict) == pytest.approx(obvious(case, k, strict), abs=1e-12)


def test_float32_alone_would_be_wrong() -> None:
    """This shows that the clusters above do test the float64 decisions."""
    real, fake = (torch.from_numpy(x) for x in tight_clusters(np.random.default_rng(0)))
    wrong, _ = calculate_precision_recall_full(fake, real, neighborhood=5)
    assert abs(wrong - prdc(real, fake, k=5, strict=False)["precision"]) > 0.05


def test_the_tiles_are_really_several(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    original = distances.tile

    def counted(a: distances.Points, b: distances.Points, i: slice, j: slice) -> torch.Tensor:
        seen.append((i.start, j.start))
        return original(a, b, i, j)

    monkeypatch.setattr(distances, "tile", counted)
    monkeypatch.setattr(distances, "EDGE", {"cpu": 128})
    real, fake = gaussian(np.random.default_rng(0))  # 6 and 8 blocks of rows
    prdc(real, fake)
    assert len(seen) == 6 * 7 // 2 + 8 * 9 // 2 + 6 * 8  # a tile and its mirror image are computed once


@pytest.mark.parametrize("case", [gaussian, lattice, one_dimension], ids=lambda case: case.__name__)
@pytest.mark.parametrize("k", [3, 5])
def test_agrees_with_the_published_package(case: Case, k: int) -> None:
    real, fake = (x.astype(np.float64) for x in case(np.random.default_rng(1)))
    with contextlib.redirect_stdout(io.StringIO()):
        expected = published.compute_prdc(real, fake, nearest_k=k)
    assert prdc(real, fake, k=k) == pytest.approx({name: float(value) for name, value in expected.items()}, abs=1e-12)


def test_mode_collapse_is_precise_and_recalls_little_and_its_mirror_the_reverse() -> None:
    rng = np.random.default_rng(3)
    modes = 20 * rng.normal(size=(10, 16))
    many = modes[rng.integers(0, 10, 1000)] + rng.normal(size=(1000, 16))
    few = modes[0] + rng.normal(size=(1000, 16))
    collapsed_model = prdc(many, few)
    scattered_model = prdc(few, many)
    assert collapsed_model["precision"] > 0.8
    assert collapsed_model["recall"] < 0.2
    assert collapsed_model["coverage"] < 0.2
    assert collapsed_model["density"] > 0.5
    assert scattered_model["precision"] < 0.2
    assert scattered_model["recall"] > 0.8
    assert collapsed_model["precision"] == scattered_model["recall"]


def test_order_and_type_of_the_arrays_change_nothing() -> None:
    real, fake = gaussian(np.random.default_rng(5))
    order = np.random.default_rng(6).permutation(len(real))
    expected = prdc(real, fake)
    assert prdc(real[order], fake[::-1]) == expected
    assert prdc(torch.from_numpy(real), torch.from_numpy(fake).double()) == expected
    assert prdc(np.asfortranarray(real), fake) == expected


def test_short_float_formats_are_not_used_and_the_setting_comes_back() -> None:
    real, fake = tight_clusters(np.random.default_rng(8))
    expected = prdc(real, fake)
    torch.set_float32_matmul_precision("medium")
    try:
        assert prdc(real, fake) == expected
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")


def test_the_enclosures_hold_the_truth() -> None:
    for case in (gaussian, tight_clusters, far_from_zero, duplicates):
        arrays = list(case(np.random.default_rng(9)))
        a, b = distances.prepare(arrays, torch.device("cpu"))
        i = slice(0, 60)
        j = slice(100, 160)
        values = distances.tile(a, b, i, j)
        pairs = distances.select(a, b, i, j, values, torch.ones_like(values, dtype=torch.bool))
        truth = squared(arrays[0][i], arrays[1][j]).ravel()
        assert (pairs.low <= truth).all()
        assert (truth <= pairs.high).all()
        refined = distances.refine(a, b, pairs)
        truth = squared(arrays[0][i], arrays[1][j])[refined.rows, refined.cols - j.start]
        slack = 1e-13 * truth  # rounding of the truth itself
        assert (refined.low <= truth + slack).all()
        assert (truth - slack <= refined.high).all()
        assert distances.exact(a, b, pairs).low == pytest.approx(squared(arrays[0][i], arrays[1][j]).ravel(), rel=1e-12)


def test_members_say_who_is_inside() -> None:
    real = np.array([[0.0], [1.0], [5.0]])
    fake = np.array([[0.5], [5.0], [99.0]])
    members = membership(real, fake, k=1)
    assert members.balls.tolist() == [2, 1, 0]
    assert members.covered.tolist() == [True, True, True]
    assert members.recalled.tolist() == [True, True, True]  # the balls around 0.5 and 5 have radius 4.5


@pytest.mark.parametrize(
    ("real", "fake", "k", "words"),
    [
        (np.zeros((10, 3)), np.zeros((10, 4)), 5, "differ in width"),
        (np.zeros((5, 3)), np.zeros((10, 3)), 5, "at least 6 images"),
        (np.zeros((10, 3)), np.zeros((10, 3)), 0, "neighbours"),
        (np.zeros(10), np.zeros((10, 3)), 3, "matrix"),
        (np.zeros((0, 3)), np.zeros((10, 3)), 3, "non-empty"),
        (np.full((10, 3), np.nan), np.zeros((10, 3)), 3, "real features hold NaN"),
        (np.zeros((10, 3)), np.full((10, 3), np.inf), 3, "fake features hold NaN or infinity"),
    ],
)
def test_mistakes_are_named(real: Array, fake: Array, k: int, words: str) -> None:
    with pytest.raises(UserError, match=words):
        prdc(real, fake, k=k)
