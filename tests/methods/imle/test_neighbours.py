"""Matching and neighbours against brute force in float64: duplicates, near-ties, and rounds without survivors."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rtm.core.errors import UserError
from rtm.methods.imle import neighbours
from rtm.methods.imle.neighbours import Match


def distances(a: Tensor, b: Tensor) -> Tensor:
    return torch.cdist(a.double(), b.double(), compute_mode="donot_use_mm_for_euclid_dist")


def brute_force(data: Tensor, pool: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    """Rejected samples, index and distance, from the full n x m matrix."""
    matrix = distances(data, pool)
    rejected = (matrix < epsilon).any(0)
    matrix[:, rejected] = math.inf
    return rejected, matrix.argmin(1), matrix.amin(1)


def stream(match: Match, pool: Tensor, chunk: int) -> Match:
    for start in range(0, len(pool), chunk):
        match.update(pool[start : start + chunk], start)
    return match


def features(
    seed: int,
    n: int,
    m: int,
    d: int = 24,
    noise: float = 0.1,
) -> tuple[Tensor, Tensor]:
    """Unit vectors; a fifth of the pool is near the data."""
    generator = torch.Generator().manual_seed(seed)
    data = F.normalize(torch.randn(n, d, generator=generator))
    pool = torch.randn(m, d, generator=generator)
    near = data[torch.arange(m // 5) % n]
    pool[: m // 5] = near + noise / math.sqrt(d) * torch.randn(m // 5, d, generator=generator)
    return data, F.normalize(pool[torch.randperm(m, generator=generator)])


@pytest.mark.parametrize("chunk", [1, 37, 256, 2000])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6])
def test_equals_brute_force(monkeypatch: pytest.MonkeyPatch, chunk: int, epsilon: float) -> None:
    monkeypatch.setattr(neighbours, "TILE", {"cpu": 1})  # tiles of 256 columns for every chunk size
    data, pool = features(0, 150, 900)
    rejected, index, distance = brute_force(data, pool, epsilon)
    match = stream(Match(data, epsilon), pool, chunk)
    got_index, got_distance = match.result()
    assert torch.equal(got_index, index)
    torch.testing.assert_close(got_distance, distance)
    assert match.seen == 900
    assert match.rejected == rejected.sum()
    assert (epsilon == 0) == (match.rejected == 0)
    torch.testing.assert_close(match.observed.double(), distances(data, pool).amin(0), rtol=0, atol=1e-4)


def test_rejection_is_decided_in_float64_at_the_threshold() -> None:
    """Far from the origin, the error of a float32 product is larger than the gap between these samples and epsilon."""
    direction = F.normalize(torch.ones(1, 64))
    data = torch.cat([torch.full((1, 64), 100.0), torch.full((5, 64), -100.0)])
    radii = 0.5 + torch.linspace(-1e-3, 1e-3, 41)[:, None]
    pool = data[:1] + radii * direction
    expected = distances(data[:1], pool)[0] < 0.5
    assert 0 < expected.sum() < 41
    naive = (data[:1].square().sum() + pool.square().sum(1) - 2 * (pool @ data[0])).clamp(min=0).sqrt() < 0.5
    assert not torch.equal(naive, expected)
    assert stream(Match(data, 0.5), pool, 41).rejected == expected.sum()
    one_by_one = stream(Match(data, 0.5), pool, 1)
    assert one_by_one.rejected == expected.sum()
    survivors = distances(data[:1], pool)[0].masked_fill(expected, math.inf)
    assert one_by_one.result()[1][0] == survivors.min()  # between chunks, float64 decides the match too


def test_epsilon_itself_is_not_nearer_than_epsilon() -> None:
    data = torch.zeros(1, 4)
    pool = torch.tensor([[0.5, 0, 0, 0], [0.4999, 0, 0, 0], [0.75, 0, 0, 0]])
    match = stream(Match(data, 0.5), pool, 3)
    assert match.rejected == 1
    assert match.result()[0].tolist() == [0]


def test_the_first_of_equally_near_samples_is_taken() -> None:
    data, _ = features(2, 30, 5)
    data = torch.cat([data, data])
    pool = torch.cat([torch.ones(7, 24), data, data])
    for chunk in (1, 10, 200):
        index, distance = stream(Match(data), pool, chunk).result()
        assert not distance.any()
        assert index.tolist() == [*range(7, 37), *range(7, 37)]


@pytest.mark.parametrize("chunk", [7, 40, 800])
@pytest.mark.parametrize("gap", [1e-5, 1e-7, 1e-9])
def test_near_ties_are_decided_in_float64(gap: float, chunk: int) -> None:
    """Samples on a sphere around a data point whose radii differ by less than float32 products can tell apart."""
    generator = torch.Generator().manual_seed(7)
    data = torch.randn(20, 256, generator=generator)
    directions = F.normalize(torch.randn(20, 40, 256, generator=generator), dim=2)
    radii = 0.1 + gap * torch.rand(20, 40, 1, generator=generator)
    pool = (data[:, None] + radii * directions).flatten(0, 1)[torch.randperm(800, generator=generator)]
    _, index, distance = brute_force(data, pool, 0.0)
    got_index, got_distance = stream(Match(data), pool, chunk).result()
    assert torch.equal(got_index, index)
    torch.testing.assert_close(got_distance, distance, rtol=1e-14, atol=0)


def test_exact_copies_of_the_data_are_rejected_by_any_epsilon() -> None:
    data, pool = features(3, 40, 400)
    match = stream(Match(data, 1e-6), torch.cat([data, pool]), 64)
    assert match.rejected == 40
    assert (match.result()[0] >= 40).all()


def test_the_error_names_the_distances_if_all_are_rejected() -> None:
    data, pool = features(4, 30, 200)
    match = stream(Match(data, 1.9), pool, 50)
    nearest_to_data = distances(data, pool).amin(0)
    message = rf"All 200 .* {nearest_to_data.min():.4g} to {nearest_to_data.max():.4g} and epsilon is 1\.9"
    with pytest.raises(UserError, match=message):
        match.result()
    match.update(-data.mean(0, keepdim=True) * 100, 200)
    assert set(match.result()[0].tolist()) == {200}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_features_that_are_not_finite_are_named(bad: float) -> None:
    data, pool = features(4, 30, 200)
    pool[77, 3] = bad
    with pytest.raises(UserError, match="diverged"):
        stream(Match(data), pool, 50)


def test_precision_settings_of_the_caller_do_not_matter() -> None:
    data, pool = features(5, 60, 300)
    expected = stream(Match(data, 0.1), pool, 100).result()[0]
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", torch.bfloat16):
            got = stream(Match(data, 0.1), pool, 100).result()[0]
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert torch.equal(got, expected)


def test_no_tile_is_as_large_as_the_whole_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "TILE", {"cpu": 2**10})
    sizes: list[int] = []

    def recorded(a: Tensor, b: Tensor) -> Tensor:
        squared = pairwise(a, b)
        sizes.append(squared.numel())
        return squared

    pairwise = neighbours.pairwise
    monkeypatch.setattr(neighbours, "pairwise", recorded)
    data, pool = features(6, 50, 5000)
    stream(Match(data, 0.1), pool, 5000)
    assert max(sizes) == 50 * 256 and sum(sizes) == 50 * 5000


@pytest.mark.parametrize("spread", [1e-2, 1e-4, 1e-6])
def test_a_pool_of_nearly_equal_samples_is_searched_to_the_last_bits(spread: float) -> None:
    """Such pools come from an untrained generator. Many samples of a row are then open, so a float64 product helps."""
    generator = torch.Generator().manual_seed(12)
    data = F.normalize(torch.randn(120, 64, generator=generator))
    data[:12] = F.normalize(data[:12] + 3)  # a tenth of the data is far from everything else
    pool = F.normalize(torch.ones(1, 64) + spread * torch.randn(800, 64, generator=generator))
    epsilon = float(distances(data, pool).amin(0).quantile(0.4))
    rejected, expected, best = brute_force(data, pool, epsilon)
    match = stream(Match(data, epsilon), pool, 100)
    index, distance = match.result()
    assert match.rejected == rejected.sum()
    torch.testing.assert_close(distance, best, rtol=1e-14, atol=0)
    assert torch.equal(index, expected)
