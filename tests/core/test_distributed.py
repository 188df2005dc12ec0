"""Several processes give the result of one process. Here threads replace processes; gloo really sends the messages."""

import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.pool import ThreadPool
from types import SimpleNamespace
from typing import TypeVar

import pytest
import torch
import torch.distributed as dist
from torch import Tensor

from rtm.core import distributed

T = TypeVar("T")
Group = Callable[[int, Callable[[int], T]], list[T]]


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Group[T]:
    """A function that runs another function in N processes with their rank. It returns the results by rank."""
    here = threading.local()

    def all_reduce(tensor: Tensor, op: dist.ReduceOp.RedOpType = dist.ReduceOp.SUM) -> None:
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp(op)
        here.gloo.allreduce([tensor], options).wait()

    def all_gather(parts: list[Tensor], tensor: Tensor) -> None:
        here.gloo.allgather([parts], [tensor]).wait()

    def together(processes: int, work: Callable[[int], T]) -> list[T]:
        store = dist.HashStore()  # type: ignore[attr-defined]

        def one(rank: int) -> T:
            here.rank = rank
            here.gloo = dist.ProcessGroupGloo(store, rank, processes, timedelta(seconds=60))
            return work(rank)

        joined = {"is_initialized": lambda: True, "get_world_size": lambda: processes, "get_rank": lambda: here.rank}
        sent = {"all_reduce": all_reduce, "all_gather": all_gather, "ReduceOp": dist.ReduceOp}
        monkeypatch.setattr(distributed, "dist", SimpleNamespace(**joined, **sent))
        with ThreadPool(processes) as pool:
            return pool.map(one, range(processes), chunksize=1)

    return together


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_shares_together_are_the_batch(group: Group[list[Tensor]], processes: int) -> None:
    batch = torch.arange(24).view(8, 3)
    for parts in group(processes, lambda _: distributed.gather(distributed.share(batch)[:, ::2])):
        assert torch.equal(torch.cat(parts), batch[:, ::2])  # the other columns are not sent


def test_a_mean_is_over_the_processes_and_leaves_what_was_given(group: Group[tuple[float, float]]) -> None:
    def work(rank: int) -> tuple[float, float]:
        value = torch.tensor(float(rank))
        return distributed.mean(value).item(), value.item()

    assert group(4, work) == [(1.5, 0), (1.5, 1), (1.5, 2), (1.5, 3)]


@pytest.mark.parametrize("flags", [(False, False, False), (False, True, False), (True, True, True)])
def test_every_process_knows_whether_any_has_the_flag(group: Group[bool], flags: tuple[bool, ...]) -> None:
    assert group(3, lambda rank: distributed.any_of(flags[rank], torch.device("cpu"))) == [any(flags)] * 3


def gradients(batch: Tensor, skip: bool = False) -> tuple[list[torch.nn.Module], list[Tensor]]:
    """A small network and its parameters, with the gradients of one process before averaging."""
    torch.manual_seed(0)
    first = torch.nn.Linear(3, 2)
    second = torch.nn.Linear(3, 2)
    first.bias.requires_grad_(False)
    loss = first(batch).square().mean() + (0 if skip else second(batch).abs().mean())
    loss.backward()
    return [first, second], [first.weight, second.weight, second.bias]


def test_averaged_gradients_are_those_of_the_whole_batch(group: Group[list[Tensor]]) -> None:
    batch = torch.rand(8, 3, generator=torch.Generator().manual_seed(1))
    whole = [parameter.grad for parameter in gradients(batch)[1]]
    modules = {rank: gradients(batch.chunk(2)[rank]) for rank in range(2)}

    def work(rank: int) -> list[Tensor]:
        distributed.average_gradients(modules[rank][0])
        assert modules[rank][0][0].bias.grad is None
        return [parameter.grad for parameter in modules[rank][1] if parameter.grad is not None]

    for found in group(2, work):
        torch.testing.assert_close(found, whole)


def test_a_parameter_without_gradient_counts_as_zero(group: Group[Tensor]) -> None:
    """One process did not use the second layer, so the average is half of the other process's gradient."""
    batch = torch.rand(4, 3, generator=torch.Generator().manual_seed(1))
    modules = {rank: gradients(batch, skip=rank == 0) for rank in range(2)}
    alone = gradients(batch)[1][1].grad
    assert alone is not None

    def work(rank: int) -> Tensor:
        distributed.average_gradients(modules[rank][0])
        grad = modules[rank][1][1].grad
        assert grad is not None
        return grad

    for found in group(2, work):
        torch.testing.assert_close(found, alone / 2)


def test_averaged_gradients_lie_in_memory_as_their_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fused optimiser reads both in memory order. With another order it would update the wrong weights."""
    network = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    network(torch.rand(2, 3, 8, 8)).square().sum().backward()
    before = network.weight.grad.clone()
    monkeypatch.setattr(distributed, "world", lambda: 2)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda flat: flat.mul_(2))
    distributed.average_gradients([network])
    assert torch.equal(network.weight.grad, before)
    assert network.weight.grad.stride() == network.weight.stride() != network.weight.contiguous().stride()


def test_alone_nothing_is_sent() -> None:
    value = torch.tensor(3.0)
    assert (distributed.rank(), distributed.world(), distributed.any_of(True, value.device)) == (0, 1, True)
    assert distributed.mean(value) is value
    assert distributed.gather(value) == [value]
    assert torch.equal(distributed.share(torch.arange(4)), torch.arange(4))
