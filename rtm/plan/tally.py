"""The counts of a rehearsal."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from rtm.config import Experiment

GIB = 2**30
Kernel = tuple[str, float, int]  # precision, FLOPs, bytes


def _from_json(pairs: Iterable[tuple[Kernel, int]]) -> Counter[Kernel]:
    return Counter({(precision, flops, size): count for (precision, flops, size), count in pairs})


def _to_json(kernels: Counter[Kernel]) -> list[tuple[Kernel, int]]:
    return sorted(kernels.items())


@dataclass
class Tally:
    """The cost of operations, independent of the device."""

    kernels: Annotated[Counter[Kernel], BeforeValidator(_from_json), PlainSerializer(_to_json)] = field(
        default_factory=Counter
    )  # with their launches
    exchanged: int = 0  # bytes that each process sends to others
    peak: int = 0  # bytes: the most that was in use at once

    @property
    def launches(self) -> int:
        return self.kernels.total()

    @property
    def flops(self) -> float:
        return sum(flops * count for (_, flops, _), count in self.kernels.items())

    @property
    def bytes(self) -> int:
        return sum(size * count for (_, _, size), count in self.kernels.items())


@dataclass(frozen=True)
class Cost:
    """The work and the memory of one of `world` processes."""

    world: int
    kinds: dict[str, float]  # of steps, with their shares of all steps
    parts: dict[str, Tally]  # each kind of step; a round's "begin", and each chunk: "decode", "features", "search"
    holds: dict[str, int]  # bytes that are held between steps, for each use


def chunk_count(experiment: Experiment, world: int) -> int:
    """The chunks of the pool that each of `world` processes decodes in a matching round; 0 without rounds."""
    imle = experiment.recipe.imle
    if imle is None:
        return 0
    parts = imle.refresh if imle.stagger else 1
    return math.ceil(imle.pool * experiment.dataset.count / parts / imle.chunk / world)


def round_count(experiment: Experiment) -> int:
    """The matching rounds of a run: one in `refresh` epochs or, if staggered, a smaller one in each epoch."""
    imle = experiment.recipe.imle
    if imle is None:
        return 0
    seen = (experiment.steps() - 1) * experiment.recipe.training.batch
    epochs = seen // experiment.dataset.count + 1
    return math.ceil(epochs / (1 if imle.stagger else imle.refresh))
