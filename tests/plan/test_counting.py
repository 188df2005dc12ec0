"""Counts of operations against counts by hand."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from rtm.core import distributed
from rtm.plan.counting import BLOCK, counting

LAYERS: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]], int]] = {  # with the FLOPs of the forward pass
    "linear": (F.linear, [(5, 7), (11, 7)], 2 * 5 * 7 * 11),
    "convolution": (
        lambda x, w: F.conv2d(x, w, padding=1),
        [(2, 3, 8, 8), (4, 3, 3, 3)],
        2 * (2 * 4 * 8 * 8) * (3 * 3 * 3),
    ),
    "depthwise": (
        lambda x, w: F.conv2d(x, w, padding=3, groups=6),
        [(2, 6, 8, 8), (6, 1, 7, 7)],
        2 * (2 * 6 * 8 * 8) * (1 * 7 * 7),
    ),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        [(2, 3, 8, 8), (3, 4, 3, 3)],
        2 * (2 * 3 * 8 * 8) * (4 * 3 * 3),
    ),
    "sum": (torch.add, [(1000, 3), (1000, 3)], 0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_operations_are_those_of_a_count_by_hand(name: str) -> None:
    layer, shapes, flops = LAYERS[name]
    with counting() as meter:
        operands = [torch.empty(shape, requires_grad=True) for shape in shapes]
        with meter.scope("forward") as forward:
            result = layer(*operands)
        with meter.scope("backward") as backward:
            result.backward(torch.empty_like(result))
        moved = sum(tensor.nbytes for tensor in [*operands, result])
    assert (forward.flops, backward.flops) == (flops, 2 * flops)  # once more for each operand
    assert (forward.bytes, forward.launches) == (moved, 1)


def test_memory_lives_as_long_as_its_last_view() -> None:
    whole = 4 * 256 * 1000
    with counting() as meter, meter.scope("all") as tally:
        first = torch.zeros(1000, 256)
        second = first + 1
        view = second[:10].T
        assert meter.in_use == 2 * whole
        del first
        assert meter.in_use == whole
        del second
        assert meter.in_use == whole
        del view
        small = torch.zeros(1)
        assert (meter.in_use, tally.peak) == (BLOCK, 2 * whole)
        assert meter.bytes_of([small, [small[:1]]]) == BLOCK


def test_values_that_depend_on_data_are_invented() -> None:
    with counting() as meter:
        x = torch.zeros(8)
        assert (float(x.sum()), int(x.argmax()), bool((x > 0).any())) == (1.0, 1, True)
        meter.true_share = 0.3
        assert x[x > 0].shape == (3,)
        assert x.nonzero().shape == (3, 1)
        assert x[torch.arange(2)].shape == (2,)
        x[x > 0] = 1.0
        assert len(x.unique()) == 8


@pytest.mark.parametrize("world", [1, 4])
def test_messages_are_counted(world: int) -> None:
    with counting(world) as meter, meter.scope("all") as tally:
        assert (distributed.rank(), distributed.world()) == (0, world)
        distributed.mean(torch.zeros(1000))
        assert len(distributed.gather(torch.zeros(10))) == world
    others = world - 1
    assert tally.exchanged == 2 * 4000 * others // world + 40 * others
