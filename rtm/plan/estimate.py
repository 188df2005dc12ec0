"""From counted operations to time and memory on a named device, by a roofline.

The time of a kernel is the maximum of its arithmetic time, its memory time and a minimum time. The time of a part is
the time of its kernels or the CPU's time to launch them, whichever is longer. Copies and messages are added, although
some of them would overlap. No kernels are fused: a compiled recipe moves fewer bytes and launches fewer kernels.
"""

from dataclasses import dataclass
from functools import cached_property

from rtm.config import Experiment
from rtm.config.devices import Device
from rtm.plan.tally import GIB, Rehearsal, Tally, round_count

OVERHEAD = 1.5 * GIB  # CUDA's context, workspaces of libraries, gaps between blocks
FACTOR = 2.0  # the hours in a recipe may differ from the planned hours by this factor
GROUPS = {"decode": "decoding", "features": "features", "data": "features", "search": "search", "begin": "search"}


def seconds(tally: Tally, device: Device, world: int) -> float:
    compute = {p: 1e12 * device.compute_reach * device.tflops.of(p) for p in {key[0] for key in tally.kernels} - {""}}
    memory, least = 1e12 * device.memory_reach * device.bandwidth_tb, 1e-6 * device.kernel_us
    kernels = sum(
        count * max(flops / compute[precision] if flops else 0.0, size / memory, least)
        for (precision, flops, size), count in tally.kernels.items()
    )
    link = device.link_gb if world <= device.node else device.network_gb
    launched = max(kernels, 1e-6 * device.launch_us * tally.launches)
    return launched + 1e-9 * (tally.copied / device.copy_gb + tally.exchanged / link)


def times(experiment: Experiment, rehearsal: Rehearsal) -> dict[str, float]:
    """How often each part of a rehearsal happens in a run."""
    steps = experiment.steps()
    shares = {name: share * steps for name, share in rehearsal.kinds.items()}
    return shares if rehearsal.chunks == 0 else shares | _rounds(experiment, rehearsal)


def _rounds(experiment: Experiment, rehearsal: Rehearsal) -> dict[str, float]:
    rounds = float(round_count(experiment))
    chunks = rounds * rehearsal.chunks
    return {"decode": chunks, "features": chunks, "search": chunks, "begin": rounds, "data": 1.0}


@dataclass(frozen=True)
class Plan:
    """One training on a device."""

    experiment: Experiment
    rehearsal: Rehearsal
    device: Device

    @property
    def world(self) -> int:
        return self.rehearsal.world

    def seconds(self, part: str) -> float:
        return seconds(self.rehearsal.parts[part], self.device, self.world)

    @cached_property
    def hours_of(self) -> dict[str, float]:
        """Hours of a run for each kind of work: decoding, features, search, step."""
        hours: dict[str, float] = {}
        for part, count in times(self.experiment, self.rehearsal).items():
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
    def round_seconds(self) -> float | None:
        if not self.rehearsal.chunks:
            return None
        return self.rehearsal.chunks * sum(map(self.seconds, ("decode", "features", "search"))) + self.seconds("begin")

    @property
    def peak(self) -> int:
        return max(self.rehearsal.peaks.values())

    @property
    def phase(self) -> str:
        """Where the peak memory is: "step" or "round"."""
        return max(self.rehearsal.peaks, key=lambda name: self.rehearsal.peaks[name])

    @property
    def memory(self) -> dict[str, int]:
        """The bytes at the peak for each use: parameters, optimizer, activations, ..."""
        held = {name: self.rehearsal.holds[name] for name in ("parameters", "EMA", "optimizer", "features")}
        held |= {"pool": self.rehearsal.pool} if self.phase == "round" else {}
        return {**held, "activations": self.peak - sum(held.values())}

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
        said, device = list[str](), self.device
        if not self.fits:
            said.append(f"needs {(self.peak + OVERHEAD) / GIB:.0f} GiB; {device.title} has {device.memory_gib:.0f}")
        if self.is_misjudged:
            said.append(f"asks for {self.experiment.recipe.resources.hours:g} hours; the plan needs {self.hours:.3g}")
        return said
