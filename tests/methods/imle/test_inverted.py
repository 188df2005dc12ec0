"""The approximate search: with all cells it is the exact one, with few it says how much it misses."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support import smoke_workspace
from torch import Tensor

from rtm.config.experiments import Ivf
from rtm.core.distances import nearest
from rtm.core.errors import UserError
from rtm.methods.imle import inverted
from rtm.methods.imle.inverted import Inverted, InvertedMatch
from rtm.methods.imle.method import ImleMethod
from rtm.methods.imle.neighbours import Match

CHUNK = 100
EPSILON = 0.5


def surface(seed: int, count: int) -> Tensor:
    """Points of a curved surface on the unit sphere."""
    directions = torch.randn(6, 32, generator=torch.Generator().manual_seed(0))
    places = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return F.normalize((places @ directions).tanh())


DATA = surface(1, 600)
POOL = surface(2, 2000)


def search(probes: int, checked: int = 2000, lists: int = 40) -> Ivf:
    return Ivf(kind="ivf", lists=lists, probes=probes, checked=checked)


def started(chosen: Ivf, epsilon: float = EPSILON, number: int = 0) -> InvertedMatch:
    distances, _ = nearest(DATA, DATA, 2)
    kept = Inverted(DATA, chosen, epsilon, torch.from_numpy(distances[:, 1]))
    centres, latents = kept.centres((start, POOL[start : start + CHUNK]) for start in range(0, len(POOL), CHUNK))
    return InvertedMatch(kept, number, max(1, len(POOL) // chosen.checked), centres, latents)


def finished(match: InvertedMatch, starts: Iterable[int] = range(0, len(POOL), CHUNK)) -> InvertedMatch:
    for start in starts:
        match.update(POOL[start : start + CHUNK], start)
    match.finish()
    return match


def recalls(match: InvertedMatch) -> dict[str, float]:
    return match.recalls(match.squared, match.exact.squared, match.rejections)


@pytest.mark.parametrize("block", [150, 2**16])
@pytest.mark.parametrize("epsilon", [0.0, EPSILON])
def test_with_all_cells_it_is_the_exact_search(epsilon: float, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverted, "BLOCK", block)
    exact = Match(DATA, epsilon)
    exact.update(POOL, 0)
    match = finished(started(search(40), epsilon))
    assert torch.equal(match.index, exact.index)
    assert torch.equal(match.squared, exact.squared)
    assert match.rejected == exact.rejected
    assert (match.rejected > 0) == (epsilon > 0)
    torch.testing.assert_close(match.observed, exact.observed, rtol=0, atol=1e-5)
    assert set(recalls(match).values()) == {1.0}


def test_few_probes_find_less_and_the_log_says_how_much() -> None:
    """The logged recalls are those of the images and samples that were drawn, by brute force."""
    found = [recalls(finished(started(search(probes)))) for probes in (1, 4, 40)]
    for name in ("search_recall", "search_recall_rare", "search_recall_rejected"):
        values = [each[name] for each in found]
        assert values == sorted(values)
        assert values[0] < 1
        assert values[-1] == 1
    match = finished(started(search(1)))
    survivors = POOL[match.observed >= EPSILON]
    least = torch.cdist(DATA.double(), survivors.double()).amin(1)
    is_nearest = match.squared.sqrt() <= least + 1e-7
    apart = torch.cdist(DATA.double(), DATA.double()).fill_diagonal_(9).amin(1)
    rarest = apart.topk(60).indices
    too_near = torch.cdist(DATA.double(), POOL.double()).amin(0) < EPSILON
    assert found[0]["search_recall"] == pytest.approx(float(is_nearest.double().mean()))
    assert found[0]["search_recall_rare"] == pytest.approx(float(is_nearest[rarest].double().mean()))
    assert found[0]["search_recall_rejected"] == pytest.approx(match.rejected / int(too_near.sum()))


def test_what_is_checked_depends_on_the_round_alone() -> None:
    first, again, other = (started(search(4, checked=20), number=number) for number in (3, 3, 4))
    assert len(first.exact.data) == 40
    assert torch.equal(first.exact.data, again.exact.data)
    assert not torch.equal(first.exact.data, other.exact.data)


@pytest.mark.parametrize("probes", [1, 4])
def test_two_processes_find_what_one_finds(probes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverted, "BLOCK", 300)
    alone = finished(started(search(probes)))
    parts = [finished(started(search(probes)), range(rank * CHUNK, len(POOL), 2 * CHUNK)) for rank in range(2)]
    squared = torch.stack([part.squared for part in parts])
    best = squared.argmin(0, keepdim=True)
    index = torch.stack([part.index for part in parts]).gather(0, best)[0]
    assert torch.equal(squared.amin(0), alone.squared)
    assert torch.equal(index, alone.index)
    assert sum(part.rejected for part in parts) == alone.rejected
    exact = torch.stack([part.exact.squared for part in parts]).amin(0)
    rejections = parts[0].rejections + parts[1].rejections
    assert alone.recalls(squared.amin(0), exact, rejections) == recalls(alone)


@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-2])
def test_every_image_has_a_match_in_a_pool_of_nearly_equal_samples(spread: float) -> None:
    pool = F.normalize(torch.ones(1, 32) + spread * torch.randn(2000, 32, generator=torch.Generator().manual_seed(3)))
    kept = Inverted(DATA, search(1), 0.0, torch.ones(600))
    match = InvertedMatch(kept, 0, 1, pool[:40], torch.arange(40))
    match.update(pool, 0)
    match.finish()
    assert match.squared.isfinite().all()
    expected = (DATA.double() - pool[match.index].double()).square().sum(1)
    torch.testing.assert_close(match.squared, expected)


def test_duplicates_among_the_images_leave_no_sample_without_a_distance() -> None:
    data = DATA[:3].repeat(100, 1)
    kept = Inverted(data, search(1), 0.0, torch.zeros(300))
    expected = torch.cdist(DATA[:3].double(), POOL.double()).amin(0).square()
    assert (kept.to_images(POOL) >= expected - 1e-9).all()
    assert kept.to_images(POOL).isfinite().all()


def test_features_that_are_not_finite_are_named() -> None:
    with pytest.raises(UserError, match="diverged"):
        started(search(4)).update(torch.full((5, 32), torch.nan), 0)


def training(folder: Path, chosen: Ivf, **imle: object) -> ImleMethod:
    experiment = smoke_workspace.experiment("shells_imle_rtm", {"search": chosen, **imle}, batch=16)
    return ImleMethod(smoke_workspace.setting(folder, experiment))


def test_a_training_with_all_cells_matches_as_an_exact_one(tmp_path: Path) -> None:
    chosen = search(8, checked=10, lists=8)
    approximate = training(tmp_path, chosen, pool=16.0)
    exact = ImleMethod(smoke_workspace.setting(tmp_path, smoke_workspace.experiment("shells_imle_rtm", {"pool": 16.0})))
    for method in (approximate, exact):
        method._start_epoch(0)
    assert torch.equal(approximate.matched, exact.matched)
    shared = {name: approximate.numbers[name] for name in exact.numbers}
    assert shared == exact.numbers
    assert approximate.numbers["search_recall"] == approximate.numbers["search_recall_rare"] == 1
    assert not any(name.startswith("search") for name in exact.numbers)


def test_a_training_stops_if_its_search_misses_too_much(tmp_path: Path) -> None:
    chosen = search(1, checked=48, lists=16).model_copy(update={"least": 1.0})
    with pytest.raises(UserError, match=r"^search_recall\w* is 0\.\d+, below imle\.search\.least: 1, .* raise probes"):
        training(tmp_path, chosen, pool=16.0).step(0)


def test_when_everything_is_rejected_the_message_is_the_exact_search_s(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"All \d+ pool samples were rejected.*set epsilon below"):
        training(tmp_path, search(8, lists=8), epsilon=3.0).step(0)
