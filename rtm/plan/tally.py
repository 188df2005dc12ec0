"""The counts from a pretended GPU."""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rtm.config import Experiment

GIB = 2**30


@dataclass
class Tally:
    """The cost of operations, independent of the device."""

    kernels: Counter[tuple[str, float, int]] = field(default_factory=Counter)  # (precision, FLOPs, bytes): launches
    waits: Counter[str] = field(default_factory=Counter)  # synchronisations by place in the code
    doubles: Counter[str] = field(default_factory=Counter)  # kernels in float64 by place
    copied: int = 0  # bytes between CPU and GPU
    exchanged: int = 0  # bytes that each process sends to others
    peak: int = 0  # bytes: the most that was in use at once

    def __sub__(self, other: "Tally") -> "Tally":
        """The difference of all counts; the peak is that of `self`."""
        return Tally(
            self.kernels - other.kernels,
            self.waits - other.waits,
            self.doubles - other.doubles,
            self.copied - other.copied,
            self.exchanged - other.exchanged,
            self.peak,
        )

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.kernels + other.kernels,
            self.waits + other.waits,
            self.doubles + other.doubles,
            self.copied + other.copied,
            self.exchanged + other.exchanged,
            max(self.peak, other.peak),
        )

    @property
    def launches(self) -> int:
        return self.kernels.total()

    @property
    def flops(self) -> float:
        return sum(flops * count for (_, flops, _), count in self.kernels.items())

    @property
    def bytes(self) -> int:
        return sum(size * count for (_, _, size), count in self.kernels.items())

    def to_json(self) -> dict[str, Any]:
        return {
            "kernels": [[*key, count] for key, count in sorted(self.kernels.items())],
            "waits": dict(self.waits), "doubles": dict(self.doubles),
            "copied": self.copied, "exchanged": self.exchanged, "peak": self.peak,
        }  # fmt: skip

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Tally":
        kernels = Counter({(precision, flops, size): count for precision, flops, size, count in saved["kernels"]})
        rest = {name: saved[name] for name in ("copied", "exchanged", "peak")}
        return cls(kernels, Counter(saved["waits"]), Counter(saved["doubles"]), **rest)


def chunk_count(experiment: Experiment, world: int) -> int:
    """The chunks of the pool that each of `world` processes decodes in a matching round; 0 without rounds."""
    imle = experiment.recipe.imle
    if imle is None:
        return 0
    parts = imle.refresh if getattr(imle, "stagger", False) else 1
    return math.ceil(imle.pool * experiment.dataset.count / parts / imle.chunk / world)


def round_count(experiment: Experiment) -> int:
    """The number of matching rounds of a run: one in `refresh` epochs or, if staggered, a smaller one in each epoch."""
    imle, training = experiment.recipe.imle, experiment.recipe.training
    assert imle is not None
    epochs = (experiment.steps() - 1) * training.batch // experiment.dataset.count + 1
    return math.ceil(epochs / (1 if imle.stagger else imle.refresh))


@dataclass(frozen=True)
class Rehearsal:
    """The work and the memory of one of `world` processes."""

    world: int
    kinds: dict[str, float]  # of steps, with their shares of all steps
    chunks: int  # chunks of the pool that this process decodes in a round; 0 without rounds
    parts: dict[str, Tally]  # each kind of step; a round's "begin", and each chunk: "decode", "features", "search"
    holds: dict[str, int]  # bytes that are held between steps, for each use
    peaks: dict[str, int]  # bytes: the most that is in use in a step, and in a round
    pool: int = 0  # bytes of the pool's features; they are part of the peak of a round

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "parts": {name: tally.to_json() for name, tally in self.parts.items()}}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Rehearsal":
        return cls(**{**saved, "parts": {name: Tally.from_json(tally) for name, tally in saved["parts"].items()}})
