"""From counted operations to time and memory on a named device, by a roofline.

The time of a kernel is the maximum of its arithmetic time, its memory time and a minimum time. The time of a part is
the time of its kernels or the CPU's time to launch them, whichever is longer. Messages are added, although some of them
would overlap. No kernels are fused: a compiled recipe moves fewer bytes and launches fewer kernels.
"""

from dataclasses import dataclass
from functools import cached_property

from rtm.config import Experiment
from rtm.config.devices import Device
from rtm.plan.tally import GIB, Cost, Tally, chunk_count, round_count

OVERHEAD = 1.5 * GIB  # CUDA's context, workspaces of libraries, gaps between blocks
FACTOR = 2.0  # the hours in a recipe may differ from the planned hours by this factor
GROUPS = {"decode": "decoding", "features": "features", "search": "search", "begin": "search"}
CHUNK = ("decode", "features", "search")  # the parts of each chunk of a round


def seconds(tally: Tally, device: Device, world: int) -> float:
    kernels = 0.0
    for kernel, count in tally.kernels.items():
        kernels += count * _kernel_seconds(*kernel, device)
    launches = 1e-6 * device.launch_us * tally.launches
    link = device.link_gb if world <= device.node else device.network_gb
    messages = 1e-9 * tally.exchanged / link
    return max(kernels, launches) + messages


def _kernel_seconds(precision: str, flops: float, size: int, device: Device) -> float:
    arithmetic = 0.0
    if flops:
        arithmetic = flops / (1e12 * device.compute_reach * device.tflops.of(precision))
    traffic = size / (1e12 * device.memory_reach * device.bandwidth_tb)
    return max(arithmetic, traffic, 1e-6 * device.kernel_us)


def times(experiment: Experiment, cost: Cost) -> dict[str, float]:
    """How often each part happens in a run."""
    steps = experiment.steps()
    counts = {name: share * steps for name, share in cost.kinds.items()}
    rounds = round_count(experiment)
    if rounds:
        chunks = float(rounds * chunk_count(experiment, cost.world))
        counts |= dict.fromkeys(CHUNK, chunks)
        counts["begin"] = float(rounds)
    return counts


@dataclass(frozen=True)
class Estimate:
    """One training on a device."""

    experiment: Experiment
    cost: Cost
    device: Device

    @property
    def world(self) -> int:
        return self.cost.world

    def seconds(self, part: str) -> float:
        return seconds(self.cost.parts[part], self.device, self.world)

    @cached_property
    def hours_of(self) -> dict[str, float]:
        """Hours of a run for each kind of work: decoding, features, search, step."""
        hours: dict[str, float] = {}
        for part, count in times(self.experiment, self.cost).items():
            group = GROUPS.get(part, "step")
            hours[group] = hours.get(group, 0.0) + count * self.seconds(part) / 3600
        return hours

    @property
    def hours(self) -> float:
        return sum(self.hours_of.values())

    @property
    def gpu_hours(self) -> float:
        return self.hours * self.world * len(self.experiment.seeds)

    @property
    def asked_gpu_hours(self) -> float:
        asked = self.experiment.recipe.resources
        return asked.hours * asked.gpus * len(self.experiment.seeds)

    @property
    def step_seconds(self) -> float:
        """The mean time of a step, without matching rounds."""
        return self.hours_of["step"] * 3600 / self.experiment.steps()

    @property
    def chunk_seconds(self) -> float | None:
        """The time of one chunk of a matching round; None without rounds."""
        if self.experiment.recipe.imle is None:
            return None
        return sum(self.seconds(part) for part in CHUNK)

    @property
    def round_seconds(self) -> float | None:
        chunk = self.chunk_seconds
        if chunk is None:
            return None
        return chunk_count(self.experiment, self.world) * chunk + self.seconds("begin")

    @property
    def peak(self) -> int:
        return max(tally.peak for tally in self.cost.parts.values())

    @property
    def peak_part(self) -> str:
        """Where the peak memory is."""
        return max(self.cost.parts, key=lambda name: self.cost.parts[name].peak)

    @property
    def memory(self) -> dict[str, int]:
        """The bytes at the peak for each use: parameters, EMA, optimizer, features, activations."""
        return {**self.cost.holds, "activations": self.peak - sum(self.cost.holds.values())}

    @property
    def is_misjudged(self) -> bool:
        """Whether the recipe asks for far more or far fewer hours than planned."""
        asked = self.experiment.recipe.resources
        return asked.gpus == self.world and not 1 / FACTOR <= asked.hours / self.hours <= FACTOR

    @property
    def fits(self) -> bool:
        return self.peak + OVERHEAD <= self.device.memory_gib * GIB

    @property
    def warnings(self) -> list[str]:
        sentences: list[str] = []
        if not self.fits:
            needed = (self.peak + OVERHEAD) / GIB
            sentences.append(f"needs {needed:.0f} GiB; {self.device.title} has {self.device.memory_gib:.0f}")
        if self.is_misjudged:
            asked = self.experiment.recipe.resources.hours
            sentences.append(f"asks for {asked:g} hours; the plan needs {self.hours:.3g}")
        return sentences
