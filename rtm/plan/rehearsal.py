"""Count the cost of a training on a pretended GPU: a few steps of the real method at full size.

A matching round is rehearsed with a pool of two chunks and with three. All chunks have the same shapes, so the
difference is the cost of one more chunk, in time and in memory.
"""

import math
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.core import distributed, randomness
from rtm.data.datasets import Images
from rtm.methods.base import Method, Setting
from rtm.methods.registry import build_method
from rtm.plan.pretend import Gpu, pretended
from rtm.plan.tally import Rehearsal, Tally, chunk_count
from rtm.training.loop import Run

PARTS = ("decode", "features", "search")  # of a matching round


class BlankImages(Images):
    """Blank images, as many as the dataset has; no file is needed."""

    def __init__(self, experiment: Experiment) -> None:
        dataset = experiment.dataset
        self.pixels = np.broadcast_to(np.uint8(0), (dataset.count, dataset.resolution, dataset.resolution, 3))
        self.labels = np.zeros(dataset.count, np.int64) if dataset.classes else None
        self.sha256 = ""


def rehearse(experiment: Experiment, world: int) -> Rehearsal:
    """Count the cost of a training. The process must have been started inside `preloaded()`."""
    with rehearsing(experiment, world) as rehearsed:
        return rehearsed.matched() if experiment.recipe.imle else rehearsed.unmatched()


@contextmanager
def rehearsing(experiment: Experiment, world: int, compiled: bool = False) -> Iterator["Rehearsed"]:
    """The training of an experiment, ready to step."""
    short = _shortened(experiment, world, compiled)
    with pretended(world) as gpu, blank_networks(), _few_draws(gpu), tempfile.TemporaryDirectory() as folder:
        setting = Setting(short, 0, BlankImages(short), Path(folder), distributed.start(use_gpu=True))
        with gpu.scope("start"):
            method = build_method(setting)
            if short.recipe.imle:  # skip the search for the radius: it is done once and is much shorter than a round
                vars(cast(Any, method).matching)["epsilon"] = 1.0
            run = Run(method, setting, Path(folder))
        yield Rehearsed(experiment, world, gpu, method, run)


def _shortened(experiment: Experiment, world: int, compiled: bool) -> Experiment:
    """The experiment with a pool of one chunk for each process, and a round in every epoch."""
    recipe = experiment.recipe
    changes: dict[str, Any] = {"training": recipe.training.model_copy(update={"compile": compiled})}
    if imle := recipe.imle:
        pool = (imle.chunk * world - 0.5) / experiment.dataset.count
        changes["imle"] = imle.model_copy(update={"pool": pool, "refresh": 1, "adaptive": None})
    return replace(experiment, recipe=recipe.model_copy(update=changes))


@contextmanager
def blank_networks() -> Iterator[None]:
    """Inside this block, frozen networks need no weights files."""
    from torchvision.models import vgg16

    from rtm.models.digits import DigitClassifier

    def vgg(_: Path) -> nn.Module:
        with torch.device("meta"):
            network = vgg16(weights=None)
        network.classifier = nn.Sequential()
        for weight in network.to_empty(device="cpu").parameters():
            nn.init.normal_(weight, std=0.05)
        return cast(nn.Module, network.eval().requires_grad_(False))

    def digits(_: Path) -> nn.Module:
        return DigitClassifier().eval().requires_grad_(False)

    with (
        mock.patch("rtm.models.vgg16.load_vgg16", vgg),
        mock.patch("rtm.methods.imle.perceptual.load_digits_classifier", digits),
    ):
        yield


@contextmanager
def _few_draws(gpu: Gpu) -> Iterator[None]:
    """Run only the first draw of random numbers of each shape, because half of all operations belong to such draws."""
    draw = randomness._normal
    replay = gpu.replayed(draw)

    def drawn(index: Tensor, *rest: Any) -> Tensor:
        return (draw if index.device.type == "cpu" else replay)(index, *rest)

    with mock.patch("rtm.core.randomness._normal", drawn):
        yield


class Rehearsed:
    def __init__(self, experiment: Experiment, world: int, gpu: Gpu, method: Method, run: Run) -> None:
        self.experiment, self.world, self.gpu, self.method, self.run = experiment, world, gpu, method, run
        self.round = 0  # number of chunks of the present round
        self.before: dict[int, int] = {}  # number of chunks: bytes in use when the round began

    def step(self, number: int, scope: str) -> Tally:
        """Do one step of the training loop and count it under `scope`."""
        with self.gpu.scope(scope):
            self.method.step(number)
            self.run.done = number + 1
            self.run._update_ema()
            return self.gpu.tally

    def unmatched(self) -> Rehearsal:
        """One step of each kind."""
        gan, extra = self.experiment.recipe.stylegan2, self.method.extra()
        if gan and gan.ada:
            self.method.load_extra({**extra, "p": 0.5})  # in a real training, p is above 0 after a short time
        kinds = step_kinds(self.experiment)
        self.step(kinds["step"][0], "first")
        parts = {name: self.step(number, name) for name, (number, _) in kinds.items()}
        shares = {name: share for name, (_, share) in kinds.items()}
        peaks = {"step": max(tally.peak for tally in parts.values())}
        return Rehearsal(self.world, shares, 0, parts, self.holds(), peaks)

    def matched(self) -> Rehearsal:
        """Rehearse a round with two chunks and its step, a single step, and a round with three chunks."""
        imle, training, method = self.experiment.recipe.imle, self.experiment.recipe.training, cast(Any, self.method)
        assert imle is not None
        n = method.matching.n
        epoch = math.ceil(n / training.batch)
        chunks = chunk_count(self.experiment, self.world)
        improved = min(1.0, (math.log(chunks) + 0.58) / chunks)  # chunk j improves 1/j of the images: the mean over j
        self.gpu.found = lambda mask: math.ceil(len(mask) * improved) if mask.dim() == 1 else 1
        self._watch(method.matching)
        with self.gpu.scope("data"):
            _ = method.matching.data_features, method.targets  # computed once, for all rounds
        two = self._round(method.matching, 0, 2)
        self._descend_once()
        step = self.step(1, "step")
        three = self._round(method.matching, epoch, 3)
        parts = {part: three[part] - two[part] for part in PARTS}
        begin = two["search"] - parts["search"] - parts["search"] + (three["step"] - step)
        parts |= {"step": step, "begin": begin, "data": self.gpu.tallies["data"] + self.gpu.tallies["features 0"]}
        rises = [max(books[part].peak for part in PARTS) - self.before[k] for k, books in ((2, two), (3, three))]
        chunk = rises[1] - rises[0]
        peak = self.before[3] + rises[1] + (chunks - 3) * chunk
        peaks = {"step": step.peak, "round": peak}
        return Rehearsal(self.world, {"step": 1.0}, chunks, parts, self.holds(), peaks, chunks * chunk)

    def _round(self, matching: Any, number: int, chunks: int) -> dict[str, Tally]:
        """Do a step that begins with a matching round of `chunks` chunks; return the cost of each part."""
        matching.m = chunks * self.world * self.experiment.recipe.imle.chunk  # type: ignore[union-attr]
        self.round, self.before[chunks] = chunks, self.gpu.now
        after = self.step(number, f"step {chunks}")
        return {"step": after} | {part: self.gpu.tallies[f"{part} {chunks}"] for part in PARTS}

    def _watch(self, matching: Any) -> None:
        """Count each part of a round separately. Repeated calls of phi, and all chunks after the first, are not run;
        their cost is added again."""
        search, embed = matching.round, self.gpu.replayed(matching.embedding.forward)
        chunk = self.gpu.replayed(lambda decode: decode(0))

        def scoped(part: str, call: Callable[..., Any]) -> Callable[..., Any]:
            def called(*given: Any) -> Any:
                with self.gpu.scope(f"{part} {self.round}"):
                    return call(*given)

            return called

        matching.embedding.forward = scoped("features", embed)
        matching.round = scoped(
            "search", lambda number, decode: search(number, scoped("decode", lambda _: chunk(decode)))
        )

    def _descend_once(self) -> None:
        """Compute gradients and update only in the next step; all later steps add the same cost."""
        method, given = cast(Any, self.method), list[Any]()
        descend = method.descend
        again = self.gpu.replayed(lambda name: descend(name, *given))

        def descended(name: str, *rest: Any) -> Tensor:
            given[:] = rest
            return again(name)

        method.descend = descended

    def holds(self) -> dict[str, int]:
        """Bytes that are held between two steps. Gradients count as activations, because each step makes them again."""
        networks, ema = self.method.networks, self.run.ema
        gradients = self.gpu.held([p.grad for p in networks.parameters()])
        weights = [[*network.parameters(), *network.buffers()] for network in (networks, ema)]
        states = [[state.values() for state in o.state.values()] for o in self.method.optimizers.values()]
        held = {"parameters": self.gpu.held(weights[0]), "EMA": self.gpu.held(weights[1])}
        held["optimizer"] = self.gpu.held([[list(values) for values in each] for each in states])
        return held | {"features": self.gpu.now - sum(held.values()) - gradients}


def step_kinds(experiment: Experiment) -> dict[str, tuple[int, float]]:
    """The kinds of steps of a method without rounds: for each, the number of one such step and its share of all."""
    gan = experiment.recipe.stylegan2
    if gan is None:
        return {"step": (1, 1.0)}
    every = {
        "path": gan.path_every if gan.path_length else 0,
        "R1": gan.r1_every if gan.r1_gamma else 0,
    }
    every = {name: interval for name, interval in every.items() if interval}
    period = math.lcm(2, *every.values())
    kinds: dict[str, list[int]] = {}
    for number in range(period):
        extra = [name for name, interval in every.items() if number % interval == 0]
        kinds.setdefault(" + ".join(["step", *extra]), []).append(number)
    return {name: (numbers[0], len(numbers) / period) for name, numbers in kinds.items()}
