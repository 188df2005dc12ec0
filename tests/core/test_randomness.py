"""Random numbers are the published Philox and depend only on (seed, index)."""

import hashlib

import pytest
import torch
from support.operations import Operations

from rtm.core.randomness import keys_of, normal, normals, permutation, philox, seed_of

# known answers of Random123 for philox4x32-10: counter, key, result
KNOWN = [
    ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, (0xFFFFFFFF, 0xFFFFFFFF), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        (0xA4093822, 0x299F31D0),
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]

DIGEST = "fc5194852b49d5848760ca475a98e64221842f4478d2350eb5291dd1643efd7c"


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN)
def test_philox_gives_the_published_answers(counter: list[int], key: tuple[int, int], result: list[int]) -> None:
    even, odd = torch.tensor(counter).view(2, 2).unbind(1)
    even, odd = philox(even, odd, torch.tensor(keys_of(key[1] << 32 | key[0])).view(10, 2))
    assert torch.stack([even, odd], 1).flatten().tolist() == result


def test_one_draw_gives_what_several_would() -> None:
    """The digest comes from numbers that were drawn seed by seed, as in finished trainings."""
    wanted = [(seed_of("map", size), size) for size in (1, 3, 16, 64, 1023, 4096)]
    index = torch.tensor([0, 1, 5, 2**32, 2**40 + 3])
    together = normals(wanted, index)
    for drawn, (seed, size) in zip(together, wanted, strict=True):
        assert drawn.shape == (5, size)
        assert torch.equal(drawn, normal(seed, index, size))
    words = torch.cat([rows.double() for rows in together], 1).mul(2**20).round().long()
    assert hashlib.sha256(words.numpy().tobytes()).hexdigest() == DIGEST


def test_a_draw_is_few_operations_however_many_maps_it_has() -> None:
    with Operations() as one:
        normal(1, torch.arange(4), 64)
    with Operations() as many:
        normals([(seed, 4**seed) for seed in range(8)], torch.arange(4))
    assert one.count <= 90
    assert many.count == one.count


def test_large_draws_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = normal(7, torch.arange(100), 10)
    monkeypatch.setattr("rtm.core.randomness._AT_ONCE", 70)
    assert torch.equal(normal(7, torch.arange(100), 10), whole)


def test_a_row_does_not_depend_on_its_batch() -> None:
    together = normal(7, torch.arange(100), 10)
    assert torch.equal(together[42:43], normal(7, torch.tensor([42]), 10))
    assert not torch.equal(together, normal(8, torch.arange(100), 10))


def test_large_indices_and_seeds_stay_distinct() -> None:
    index = torch.tensor([0, 1, 2**32, 2**40])
    assert len({tuple(row) for row in normal(2**62, index, 4).tolist()}) == 4


def test_normal_has_the_moments_of_a_normal() -> None:
    x = normal(1, torch.arange(50_000), 8).double()
    assert x.mean().abs() < 0.01
    assert abs(x.var() - 1) < 0.01
    assert abs((x**4).mean() - 3) < 0.05
    assert torch.corrcoef(x.T).fill_diagonal_(0).abs().max() < 0.02


def test_seed_of_separates_names_and_is_stable() -> None:
    assert seed_of("a", 1) != seed_of("a", 2) != seed_of("b", 1)
    assert seed_of("z", 0) == 6292295016697025818


def test_a_permutation_holds_each_number_once() -> None:
    assert sorted(permutation(3, 1000).tolist()) == list(range(1000))
