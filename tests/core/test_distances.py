"""The nearest rows against brute force in float64: near-ties, duplicates, several blocks, and bad numbers."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from rtm.core import distances
from rtm.core.distances import nearest
from rtm.core.errors import UserError


def by_differences(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float64]:
    return np.stack([np.sqrt(np.square(row - b.astype(np.float64)).sum(1)) for row in a.astype(np.float64)])


def unit(seed: int, count: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).normal(size=(count, 24))
    return np.asarray(drawn / np.linalg.norm(drawn, axis=1, keepdims=True), np.float32)


@pytest.mark.parametrize("k", [1, 3, 40])
def test_nearest_equals_brute_force(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distances, "TILE", {"cpu": 7 * 40})  # 7 queries at a time
    base = unit(0, 40)
    queries = np.concatenate([unit(1, 100), base])
    found_distances, found = nearest(torch.from_numpy(queries), base, k)
    matrix = by_differences(queries, base)
    order = matrix.argsort(axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(found, order)
    np.testing.assert_allclose(found_distances, np.take_along_axis(matrix, order, axis=1), rtol=1e-14)
    assert not found_distances[100:, 0].any()


def test_near_ties_that_are_equal_in_float32() -> None:
    """Forty points whose distances to the query differ by 1e-9, far from the origin: equal in float32."""
    base = 100 + np.eye(40) * (1 + 1e-9 * np.arange(40)[::-1, None])
    assert nearest(np.full((1, 40), 100.0), base, 3)[1].tolist() == [[39, 38, 37]]


def test_equal_points_are_ordered_by_index() -> None:
    base = np.repeat(1000 + np.arange(12.0)[None].repeat(2, 0).reshape(-1, 1), 8, axis=1)
    found_distances, found = nearest(base[:12], base, 2)
    assert found.tolist() == [[i, i + 12] for i in range(12)]
    assert not found_distances.any()


@pytest.mark.parametrize("k", [0, 41])
def test_impossible_numbers_of_neighbours(k: int) -> None:
    with pytest.raises(UserError, match="ask for 1 to 40"):
        nearest(unit(2, 10), unit(3, 40), k)


def test_a_matrix_with_nan_is_refused() -> None:
    with pytest.raises(UserError, match=r"base features hold NaN or infinity \(first in row 7\)"):
        nearest(unit(2, 10), np.where(np.arange(40)[:, None] == 7, np.nan, unit(3, 40)), 1)
