"""Functions that tests run in a process with a pretended GPU; `apart` calls them there."""

import multiprocessing
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from support import PARAMS

from rtm.config import Experiment, load
from rtm.plan.driver import preloaded

T = TypeVar("T")


@contextmanager
def pretending(folder: Path) -> Iterator[ProcessPoolExecutor]:
    """One process with a pretended GPU for many calls, because its start takes as long as a rehearsal."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin, (folder,)) as pool:
        with preloaded(folder):
            pool.submit(int).result()  # it starts with the first call
        yield pool


def _begin(folder: Path) -> None:
    import warnings

    import torch

    os.environ.pop("LD_PRELOAD", None)
    os.environ |= {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")


def result(pool: ProcessPoolExecutor, call: Callable[..., T], *given: Any) -> T:
    """The result of a function of this module, called in the process of `pool`."""
    return pool.submit(_with_plain_errors, call, *given).result()


def apart(folder: Path, call: Callable[..., T], *given: Any) -> T:
    """The result of a function of this module, called in a separate process."""
    with pretending(folder) as pool:
        return result(pool, call, *given)


def _with_plain_errors(call: Callable[..., T], *given: Any) -> T:
    try:
        return call(*given)
    except Exception as error:  # some of torch's exceptions cannot be sent to another process
        raise RuntimeError(f"{type(error).__name__}: {error}") from None


Cost = tuple[float, int, int]  # FLOPs, bytes, launches


def costs() -> dict[str, Cost]:
    """Forward and backward of single layers."""
    import torch
    import torch.nn.functional as F
    from torch import Tensor

    from rtm.plan.pretend import pretended

    layers: dict[str, tuple[Callable[..., Tensor], list[tuple[int, ...]]]] = {
        "linear": (F.linear, [(5, 7), (11, 7)]),
        "convolution": (lambda x, w: F.conv2d(x, w, padding=1), [(2, 3, 8, 8), (4, 3, 3, 3)]),
        "depthwise": (lambda x, w: F.conv2d(x, w, padding=3, groups=6), [(2, 6, 8, 8), (6, 1, 7, 7)]),
        "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [(2, 3, 8, 8), (3, 4, 3, 3)]),
        "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 3, 4, 16)] * 3),
        "sum": (torch.add, [(1000, 3), (1000, 3)]),
    }
    found: dict[str, Cost] = {}
    with pretended() as gpu:
        for name, (layer, shapes) in layers.items():
            given = [torch.empty(shape, device="cuda", requires_grad=True) for shape in shapes]
            with gpu.scope(name):
                made = layer(*given)
            with gpu.scope(f"{name} backward"):
                made.backward(torch.empty_like(made))
        for name, tally in gpu.tallies.items():
            found[name] = tally.flops, tally.bytes, tally.launches
    return found


def lives() -> list[int]:
    """The bytes in use, now and at most, while tensors are created and deleted."""
    import torch

    from rtm.plan.pretend import pretended

    with pretended() as gpu, gpu.scope("all"):
        seen = []
        first = torch.zeros(1000, 256, device="cuda")
        second = first + 1
        view = second[:10].T
        seen += [gpu.now]
        del first
        seen += [gpu.now]
        del second
        seen += [gpu.now]  # the view keeps the memory in use
        del view
        small = torch.zeros(1, device="cuda")
        return [*seen, gpu.now, gpu.tally.peak, gpu.held([small, [small[:1]]])]


def waits() -> dict[str, int]:
    import torch

    from rtm.plan.pretend import pretended

    with pretended() as gpu:
        x, host = torch.zeros(8, device="cuda"), torch.ones(8)
        calls: dict[str, Callable[[], Any]] = {
            "arithmetic": lambda: (x + 1).sum(),
            "item": lambda: float(x.sum()),
            "copy back": lambda: x.cpu(),
            "pageable": lambda: host.to("cuda", non_blocking=True),
            "pinned": lambda: host.pin_memory().to("cuda", non_blocking=True),
            "pinned, blocking": lambda: host.pin_memory().to("cuda"),
            "nonzero": lambda: x.nonzero(),
            "mask": lambda: x[x > 0],
            "places": lambda: x[torch.arange(3)],
        }
        for name, call in calls.items():
            with gpu.scope(name):
                call()
        return {name: gpu.tallies[name].waits.total() for name in calls}


def real_on_the_cpu() -> tuple[list[int], str]:
    """Values that were never on the GPU, and the error message of an operation on two devices."""
    import torch

    from rtm.plan.pretend import pretended

    with pretended():
        order = torch.argsort(torch.tensor([3, 1, 2])).tolist()
        try:
            torch.zeros(3, device="cuda") + torch.zeros(3)
        except RuntimeError as error:
            return order, str(error)
    return order, ""


def exchanged(world: int) -> int:
    import torch

    from rtm.core import distributed
    from rtm.plan.pretend import pretended

    with pretended(world) as gpu, gpu.scope("all"):
        assert (distributed.rank(), distributed.world()) == (0, world)
        distributed.mean(torch.zeros(1000, device="cuda"))
        assert len(distributed.gather(torch.zeros(10, device="cuda"))) == world
        return gpu.tally.exchanged


def observed() -> dict[str, Any]:
    """The results of all functions above, from one call, because a process starts slowly."""
    calls: dict[str, Callable[[], Any]] = {"costs": costs, "lives": lives, "waits": waits, "real": real_on_the_cpu}
    return {name: call() for name, call in calls.items()} | {"sent": [exchanged(1), exchanged(4)]}


def small(name: str, **training: Any) -> Experiment:
    """An experiment of the paper, small enough for a few seconds on a CPU. Its memory is mostly activations."""
    chosen = load("paper", PARAMS).experiments[name]
    recipe, updates = chosen.recipe, {"batch": 16, "precision": "float32", "compile": False, **training}
    changes: dict[str, Any] = {"dim": 128, "training": recipe.training.model_copy(update=updates)}
    if recipe.imle:
        changes["imle"] = recipe.imle.model_copy(update={"pool": 0.5, "chunk": 32, "projection": 32})
    if recipe.stylegan2:
        gan = {"channel_base": 2048, "channel_max": 64, "mbstd_group": 4}
        changes["stylegan2"] = recipe.stylegan2.model_copy(update=gan)
    dataset = chosen.dataset.model_copy(update={"count": 64, "resolution": 32})
    decoder = chosen.decoder and chosen.decoder.model_copy(
        update={"width": 64, "widths": {}, "blocks": {1: 1, 4: 1, 8: 1, 16: 2, 32: 2}}
    )
    return replace(chosen, recipe=recipe.model_copy(update=changes), dataset=dataset, decoder=decoder)


def memory_of_steps(experiments: list[Experiment]) -> list[int]:
    """The peak memory of a step of each training, minus the memory that the training holds between steps."""
    from rtm.plan.rehearsal import rehearsing

    rises = []
    for experiment in experiments:
        with rehearsing(experiment, 1) as rehearsed:
            rehearsed.step(0, "first")
            before = rehearsed.gpu.now
            rises.append(rehearsed.step(1, "step").peak - before)
    return rises


def compiled_kernels(experiment: Experiment, world: int) -> list[str]:
    """The kernels of a matching round and a step, compiled for an H100."""
    from support.sm90 import compiling

    from rtm.plan.rehearsal import rehearsing

    with compiling() as names, rehearsing(experiment, world, compiled=True) as rehearsed:
        rehearsed.step(0, "first")
        return names
