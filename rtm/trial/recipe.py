"""The parameters of a trial, chosen from the number and size of the images and from the machine.

They are written to try/<name>/params.yaml once, by the template beside this file; after that, the file counts.
docs/try.md says how they were found.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from rtm.config.loading import TRIALS
from rtm.core.files import write_text

RESOLUTIONS = (32, 64, 128, 256)
TRAININGS = 2  # the MLP's and RTM's
GRIDS = 12  # sample grids of a training
ROUNDS = 8  # matching rounds of a training
FEWEST_STEPS = 300  # with fewer steps, the samples show nothing
FEWEST_EPOCHS = 4
POOL_COST = 0.4  # cost of a pool image, relative to a training image: it is only decoded and compared


@dataclass(frozen=True)
class Machine:
    cores: int
    gpus: int  # GPUs of one training

    @property
    def resolution(self) -> int:
        """The largest resolution that gives recognisable samples in the time of a trial."""
        if self.gpus:
            return 128 if self.gpus == 1 else 256
        return 64 if self.cores >= 16 else 32

    @property
    def images(self) -> int:
        """The most images that can be matched in the time of a trial."""
        return 10_000 * self.gpus or max(500, 100 * self.cores)

    @property
    def minutes(self) -> int:
        return 60 if self.gpus else 10

    @property
    def cpus(self) -> int:
        """The threads of one training."""
        return 8 * self.gpus or max(1, self.cores // TRAININGS)

    @property
    def at_once(self) -> int:
        """The trainings that run side by side."""
        return 1 if self.gpus or self.cores < TRAININGS else TRAININGS


@dataclass(frozen=True)
class Choice:
    """The values that define a trial; all other values follow from them."""

    name: str
    images: int
    resolution: int
    machine: Machine
    epochs: int

    @property
    def batch(self) -> int:
        return 16 if self.machine.gpus else 5

    @property
    def steps(self) -> int:
        return math.ceil(self.epochs * self.images / self.batch)

    @property
    def grid_every(self) -> int:
        """The steps between grids, chosen so that there are about GRIDS grids and the last one shows the end."""
        divisors = [every for every in range(1, self.steps + 1) if self.steps % every == 0]
        return min(divisors, key=lambda every: abs(math.log(self.steps / every / GRIDS)))

    @property
    def pool(self) -> float:
        """The pool images for each training image, chosen so that matching takes about a quarter of the time."""
        rounds = min(ROUNDS, self.epochs)
        return round(min(20.0, max(2.0, self.epochs / 3 / (rounds * POOL_COST))), 1)

    @property
    def refresh(self) -> int:
        """The epochs between two matching rounds."""
        return max(1, round(self.epochs / ROUNDS))


def resolution_for(side: int, machine: Machine) -> int:
    """The machine's resolution, or a lower one if the images are smaller."""
    fitting = [resolution for resolution in RESOLUTIONS if resolution <= min(side, machine.resolution)]
    return max(fitting, default=RESOLUTIONS[0])


def epochs_for(steps: float, choice: Choice) -> int:
    """A suitable number of epochs, near `steps`: the training ends with a sample grid and has enough grids before."""
    wanted = max(FEWEST_EPOCHS, round(steps * choice.batch / choice.images))
    for epochs in range(wanted, wanted + GRIDS):
        longer = replace(choice, epochs=epochs)
        if 8 <= longer.steps // longer.grid_every < 2 * GRIDS:
            return epochs
    return wanted


def folder_of(name: str) -> Path:
    return Path(TRIALS) / name


def write(path: Path, choice: Choice, sha256: str, hours: float) -> Path:
    write_text(path, text_of(choice, sha256, hours))
    return path


def text_of(choice: Choice, sha256: str, hours: float) -> str:
    """A trial's params.yaml."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    template = environment.from_string(Path(__file__).with_name("params.yaml.j2").read_text("utf-8"))
    gpus = choice.machine.gpus
    steps = choice.steps
    stages = [4, 8, 16, *(resolution for resolution in RESOLUTIONS if resolution <= choice.resolution)]
    return template.render(
        name=choice.name,
        images=choice.images,
        resolution=choice.resolution,
        sha256=sha256,
        epochs=choice.epochs,
        steps=steps,
        batch=choice.batch,
        pool=choice.pool,
        refresh=choice.refresh,
        decay_epochs=max(1, round(0.4 * choice.epochs)),
        ema=round(min(0.9999, max(0.9, 1 - 10 / steps)), 4),
        grid_every=choice.grid_every,
        stages=stages,
        narrow_stages=[stage for stage in stages if stage > 64],
        width=256 if gpus else 128,
        samples=min(choice.images, 5000 if gpus else 250),
        gpus=gpus,
        cpus=choice.machine.cpus,
        hours=round(max(0.1, hours), 2),
    )
