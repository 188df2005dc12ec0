"""The pretended GPU's counts against counts by hand."""

from typing import Any

import pytest
from support.rehearsals import apart, observed

pytestmark = pytest.mark.slow(seconds=2)

FLOPS = {  # of the forward pass; the backward pass needs as many again for each of the two inputs
    "linear": 2 * 5 * 7 * 11,
    "convolution": 2 * (2 * 4 * 8 * 8) * (3 * 3 * 3),
    "depthwise": 2 * (2 * 6 * 8 * 8) * (1 * 7 * 7),
    "transposed": 2 * (2 * 3 * 8 * 8) * (4 * 3 * 3),
    "attention": 2 * 2 * (2 * 3) * 4 * 4 * 16,
    "sum": 0,
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return apart(tmp_path_factory.mktemp("driver"), observed)


def test_operations_are_those_of_a_count_by_hand(seen: dict[str, Any]) -> None:
    found = seen["costs"]
    assert {name: found[name][0] for name in FLOPS} == FLOPS
    backward = {name: found[f"{name} backward"][0] for name in FLOPS}
    again = {name: (5 / 2 if name == "attention" else 2) * flops for name, flops in FLOPS.items()}
    assert backward == again  # attention computes its weights again
    assert found["sum"] == (0, 3 * 4 * 3000, 1)
    assert found["linear"][1:] == (4 * (5 * 7 + 7 * 11 + 5 * 11), 1)


def test_memory_lives_as_long_as_its_last_view(seen: dict[str, Any]) -> None:
    whole, block = 4 * 256 * 1000, 512
    assert seen["lives"] == [2 * whole, whole, whole, block, 2 * whole, block]


def test_every_wait_for_the_gpu_is_seen(seen: dict[str, Any]) -> None:
    found = seen["waits"]
    free = {name for name, count in found.items() if count == 0}
    assert free == {"arithmetic", "pinned"}
    assert set(found.values()) == {0, 1}


def test_the_cpu_computes_and_devices_do_not_mix(seen: dict[str, Any]) -> None:
    order, message = seen["real"]
    assert order == [1, 2, 0]
    assert "device" in message


def test_messages_are_counted(seen: dict[str, Any]) -> None:
    ring, gathered = 2 * 4000 * 3 // 4, 40 * 3
    assert seen["sent"] == [0, ring + gathered]
