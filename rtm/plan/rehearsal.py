"""Count the cost of a training: a few steps of the real method at full size, on tensors without data.

The tensors are on the CPU, because torch's autograd asks a driver about other devices. Where rtm's code does something
else on a GPU, `_as_on_a_gpu` replaces it.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.core.distances import TILE
from rtm.methods.imle.method import ImleMethod
from rtm.methods.imle.neighbours import Match
from rtm.methods.imle.perceptual import LPIPS, maps_of_all
from rtm.plan.counting import Meter, counting
from rtm.plan.tally import Cost, chunk_count
from rtm.training import rehearsal as steps
from rtm.training.rehearsal import Rehearsal

CPU = torch.device("cpu")
ROUND = ("decode", "features", "search", "begin")  # the parts of a matching round
# torch.autocast computes these in float32 on a GPU, and not on a CPU
IN_FLOAT32 = ("layer_norm", "pow.Tensor_Scalar", "rsqrt", "sum.dim_IntList")


def count_cost(experiment: Experiment, world: int) -> Cost:
    with rehearsing(experiment, world) as (meter, rehearsal):
        if experiment.recipe.imle:
            kinds = {"step": 1.0}
            _count_round(meter, rehearsal, chunk_count(experiment, world))
        else:
            kinds = _count_kinds(meter, rehearsal)
        parts = {name: meter.tallies[name] for name in (*kinds, *ROUND) if name in meter.tallies}
        return Cost(world, kinds, parts, _held_bytes(meter, rehearsal))


@contextmanager
def rehearsing(experiment: Experiment, world: int) -> Iterator[tuple[Meter, Rehearsal]]:
    """The training of an experiment, ready to step on tensors without data."""
    training = experiment.recipe.training.model_copy(update={"compile": False})
    plain = replace(experiment, recipe=experiment.recipe.model_copy(update={"training": training}))
    ready = steps.rehearsing(plain, Path(), CPU, world)
    with _as_on_a_gpu(), _autocast_of_a_gpu(), counting(world) as meter, ready as rehearsal:
        if isinstance(rehearsal.method, ImleMethod):
            _place_data(rehearsal.method)
        yield meter, rehearsal


@contextmanager
def _autocast_of_a_gpu() -> Iterator[None]:
    def in_float32(operation: Any) -> Callable[..., Any]:
        def compute(*args: Any, **kwargs: Any) -> Any:
            with torch.autocast("cpu", enabled=False):
                return operation(*(each.float() if _is_bfloat16(each) else each for each in args), **kwargs)

        return compute

    library = torch.library.Library("aten", "IMPL")
    for name in IN_FLOAT32:
        packet, _, overload = name.partition(".")
        library.impl(name, in_float32(getattr(getattr(torch.ops.aten, packet), overload or "default")), "AutocastCPU")
    try:
        yield
    finally:
        library._destroy()


def _is_bfloat16(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bfloat16


@contextmanager
def _as_on_a_gpu() -> Iterator[None]:
    """Replace what needs data, or does something else on a GPU."""

    def unchanged(given: Any, *_: Any, **__: Any) -> Any:
        return given

    def batch(images: Any, seed: int, step: int, size: int, *_: Any) -> Tensor:
        return torch.arange(size)

    def pairwise(a: Tensor, b: Tensor) -> Tensor:
        norms = a.square().sum(1, keepdim=True) + b.square().sum(1)
        return torch.addmm(norms, a, b.T, alpha=-2)

    with (
        mock.patch("torch.nn.init.trunc_normal_", unchanged),  # it draws until all values are small
        mock.patch("torch.nn.Module.to", unchanged),  # everything is on one device
        mock.patch("rtm.methods.base.expecting", batch),
        mock.patch("rtm.methods.imle.neighbours.pairwise", pairwise),
        mock.patch.dict(TILE, cpu=TILE["cuda"]),
        in_place_of_files(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # copying a network asks for the address of its data
        yield


@contextmanager
def in_place_of_files() -> Iterator[None]:
    """Inside this block, frozen networks need no weights files."""
    perceptual = "rtm.methods.imle.perceptual"
    digits = mock.patch(f"{perceptual}.load_digits_classifier", _digit_classifier)
    with mock.patch(f"{perceptual}._lpips", _lpips), digits:
        yield


def _lpips(_: Path) -> LPIPS:
    from torchvision.models import vgg16

    layers = vgg16(weights=None, init_weights=False).features
    for layer in layers:
        layer.inplace = False
    heads = [torch.ones(1, channels, 1, 1) for channels in (64, 128, 256, 512, 512)]
    return LPIPS(cast(nn.Sequential, layers), heads)


def _digit_classifier(_: Path) -> nn.Module:
    from rtm.models.digits import DigitClassifier

    return DigitClassifier().eval().requires_grad_(False)


def _place_data(method: ImleMethod) -> None:
    """Hold what a training computes once at its beginning: the radius, the maps and the features of all images."""
    matching = method.matching
    embedding = matching.embedding
    if embedding.projections is not None:
        embedding.projections = [weight.half() for weight in embedding.projections]  # as on a GPU
    index = torch.arange(min(matching.imle.chunk, matching.n))
    chunk = matching.images.batch(index, CPU)
    features = embedding(chunk)
    vars(matching)["epsilon"] = 1.0
    vars(matching)["inverted"] = None  # the exact search counts, an upper bound
    vars(matching)["data_features"] = features.new_empty(matching.n, features.shape[1])
    vars(method)["targets"] = maps_of_all([method._maps(chunk)], method.n)


def _count_round(meter: Meter, rehearsal: Rehearsal, chunks: int) -> None:
    """Do a round and its step, a step alone, and a step with a round that counts."""
    rehearsal.step(0)
    with meter.scope("step"):
        rehearsal.step(1)
    method = cast(ImleMethod, rehearsal.method)

    def scoped(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            with meter.scope(name):
                return call(*args)

        return counted

    meter.true_share = min(1.0, (math.log(chunks) + 0.58) / chunks)  # chunk j improves 1/j of the images: the mean
    search = scoped("search", Match.update)
    with (
        mock.patch.object(method, "_match", scoped("begin", method._match)),
        mock.patch.object(method, "_decode", scoped("decode", method._decode)),
        mock.patch.object(method.matching.embedding, "forward", scoped("features", method.matching.embedding.forward)),
        mock.patch.object(Match, "update", lambda *args: search(*args)),
    ):
        rehearsal.step(rehearsal.epoch_after(2))


def _count_kinds(meter: Meter, rehearsal: Rehearsal) -> dict[str, float]:
    """Do one step of each kind; return their shares of all steps."""
    kinds = step_kinds(rehearsal.experiment)
    gan = rehearsal.experiment.recipe.stylegan2
    if gan and gan.ada:
        rehearsal.method.load_extra({**rehearsal.method.extra(), "p": 0.5})  # it is above 0 after a short time
    rehearsal.step(kinds["step"][0])
    for name, (number, _) in kinds.items():
        with meter.scope(name):
            rehearsal.step(number)
    return {name: share for name, (_, share) in kinds.items()}


def step_kinds(experiment: Experiment) -> dict[str, tuple[int, float]]:
    """The kinds of steps of a method without rounds: for each, the number of one such step and its share of all."""
    gan = experiment.recipe.stylegan2
    if gan is None:
        return {"step": (1, 1.0)}
    intervals: dict[str, int] = {}
    if gan.path_length and gan.path_every:
        intervals["path"] = gan.path_every
    if gan.r1_gamma and gan.r1_every:
        intervals["R1"] = gan.r1_every
    period = math.lcm(2, *intervals.values())
    numbers: dict[str, list[int]] = {}
    for number in range(period):
        due = [name for name, interval in intervals.items() if number % interval == 0]
        numbers.setdefault(" + ".join(["step", *due]), []).append(number)
    return {name: (members[0], len(members) / period) for name, members in numbers.items()}


def _held_bytes(meter: Meter, rehearsal: Rehearsal) -> dict[str, int]:
    """Bytes that are held between two steps. Gradients count as activations, because each step makes them again."""
    networks = rehearsal.method.networks
    ema = rehearsal.run.ema
    states = [list(optimizer.state.values()) for optimizer in rehearsal.method.optimizers.values()]
    held = {
        "parameters": meter.bytes_of([*networks.parameters(), *networks.buffers()]),
        "EMA": meter.bytes_of([*ema.parameters(), *ema.buffers()]),
        "optimizer": meter.bytes_of(states),
    }
    gradients = meter.bytes_of([parameter.grad for parameter in networks.parameters()])
    return held | {"features": meter.in_use - sum(held.values()) - gradients}
