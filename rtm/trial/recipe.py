"""The parameters of a trial, chosen from the number and size of the images and from the machine.

They are written to try/<name>/params.yaml once; after that, the file counts. docs/try.md says how they were found.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from rtm.config.loading import TRIALS
from rtm.config.reading import Raw
from rtm.core.files import write_text

RESOLUTIONS = (32, 64, 128, 256)
MAPPERS = ("mlp", "rtm")
GRIDS = 12  # sample grids of a training
ROUNDS = 8  # matching rounds of a training
FEWEST_STEPS = 300  # with fewer steps, the samples show nothing
FEWEST_EPOCHS = 4
POOL_COST = 0.4  # cost of a pool image, relative to a training image: it is only decoded and compared
FIGURES = {"samples": (8, 8), "neighbours": (6, 6), "slerp": (4, 10)}  # rows and columns of each kind
COLUMNS = (
    {"title": "KID ×10³", "metric": "kid", "better": "lower", "times": 1000.0, "digits": 1},
    {"title": "Prec.", "metric": "precision", "better": "higher"},
    {"title": "Rec.", "metric": "recall", "better": "higher"},
    {"title": "Cov.", "metric": "coverage", "better": "higher"},
    {"title": "FID", "metric": "fid", "digits": 1},  # not compared: with so few images it is mostly bias
    {"title": "Params", "metric": "mapper_parameters", "unit": "k", "digits": 0},
)


@dataclass(frozen=True)
class Machine:
    cores: int
    gpus: int  # GPUs of one training

    @property
    def resolution(self) -> int:
        """The largest resolution that gives recognisable samples in the time of a trial."""
        return (64 if self.cores >= 16 else 32) if not self.gpus else 128 if self.gpus == 1 else 256

    @property
    def images(self) -> int:
        """The most images that can be matched in the time of a trial."""
        return 10_000 * self.gpus or max(500, 100 * self.cores)

    @property
    def minutes(self) -> int:
        return 60 if self.gpus else 10

    @property
    def cpus(self) -> int:
        """The threads of one training; on a CPU, two trainings run side by side."""
        return 8 * self.gpus or max(1, self.cores // len(MAPPERS))


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
        return -(-self.epochs * self.images // self.batch)

    @property
    def grid_every(self) -> int:
        """The steps between grids, chosen so that there are about GRIDS grids and the last one shows the end."""
        return min((each for each in range(1, self.steps + 1) if self.steps % each == 0), key=self._off)

    def _off(self, every: int) -> float:
        return abs(math.log(self.steps / every / GRIDS))

    @property
    def pool(self) -> float:
        """The pool images for each training image, chosen so that matching takes about a quarter of the time."""
        rounds = min(ROUNDS, self.epochs)
        return round(min(20.0, max(2.0, self.epochs / 3 / (rounds * POOL_COST))), 1)


def resolution_for(side: int, machine: Machine) -> int:
    """The machine's resolution, or a lower one if the images are smaller."""
    return max(RESOLUTIONS[0], *(each for each in RESOLUTIONS if each <= min(side, machine.resolution)), 0)


def epochs_for(steps: float, choice: Choice) -> int:
    """A suitable number of epochs, near `steps`: the training ends with a sample grid and has enough grids before."""
    wanted = max(FEWEST_EPOCHS, round(steps * choice.batch / choice.images))
    near = (replace(choice, epochs=each) for each in range(wanted, wanted + GRIDS))
    return min(near, key=lambda each: (each.steps // each.grid_every not in range(8, 2 * GRIDS), each.epochs)).epochs


def folder_of(name: str) -> Path:
    return Path(TRIALS) / name


def write(path: Path, choice: Choice, sha256: str, hours: float) -> Path:
    text: str = yaml.dump(parameters(choice, sha256, hours), Dumper=Dumper, sort_keys=False, width=120)
    write_text(path, f"# Written by `rtm try`. Edit it, and the same command trains what the changes ask for.\n{text}")
    return path


class Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


def parameters(choice: Choice, sha256: str, hours: float) -> Raw:
    """All sections of a trial's params.yaml."""
    name, gpus = choice.name, choice.machine.gpus
    dataset = {
        "title": name,
        "kind": "images",
        "resolution": choice.resolution,
        "count": choice.images,
        "sha256": sha256,
        "licence": "that of its owner",
        "citation": "images of one's own",
    }
    return {
        "datasets": {name: dataset},
        "mappers": {
            f"{name}_mlp": {"kind": "mlp", "layers": 8, "init": "he"},
            f"{name}_rtm": {"kind": "rtm", "H": 8, "L": 1, "width": 128 if gpus else 64},
        },
        "decoders": {name: _decoder(choice)},
        "recipes": {f"{name}_imle": _recipe(choice, hours)},
        "experiments": {
            f"{name}_{mapper}": {"recipe": f"{name}_imle", "mapper": f"{name}_{mapper}"} for mapper in MAPPERS
        },
        "protocols": {name: _protocol(choice)},
        "tables": {f"tab_{name}": _table(choice)},
        "figures": _figures(name),
    }


def _decoder(choice: Choice) -> Raw:
    width = 256 if choice.machine.gpus else 128
    stages = [4, 8, 16, *(each for each in RESOLUTIONS if each <= choice.resolution)]
    narrow = {stage: max(32, width * 32 // stage) for stage in stages if stage > 64}
    blocks = dict.fromkeys(stages, 2)
    shape = {"block": "residual", "blocks": blocks, "width": width, "noise": False}
    return {**shape, **({"widths": narrow} if narrow else {})}


def _recipe(choice: Choice, hours: float) -> Raw:
    gpus, steps = choice.machine.gpus, choice.steps
    training = {
        "epochs": choice.epochs,
        "batch": choice.batch,
        "lr": 1e-3,
        "betas": [0.5, 0.999],
        "warmup": min(50, steps // 10),
        "decay": 0.3,
        "decay_epochs": max(1, round(0.4 * choice.epochs)),
        "ema": round(min(0.9999, max(0.9, 1 - 10 / steps)), 4),
        "save_every": max(1, steps // 20),
        "grid_every": choice.grid_every,
    }
    imle = {
        "pool": choice.pool,
        "refresh": max(1, round(choice.epochs / ROUNDS)),
        "epsilon": 0.75,
        "mse": 2.0,
        "chunk": 64,
    }
    evaluation = {"protocols": [choice.name], "samples": _samples(choice), "batch": 64}
    cpus, memory = choice.machine.cpus, 16 * gpus or 4
    return {
        "dataset": choice.name,
        "dim": 512 if gpus else 256,
        "decoder": choice.name,
        "imle": imle,
        "training": training,
        "evaluation": {**evaluation, "latency_batch": 16, "latency_passes": 20, "latency_warmup": 3},
        "resources": {
            "gpus": gpus,
            "gpu_model": "",
            "cpus": cpus,
            "mem_gb": memory,
            "hours": round(max(0.1, hours), 2),
        },
    }


def _samples(choice: Choice) -> int:
    """The number of samples: as many as images, but at most as many as the machine measures in minutes."""
    return min(choice.images, 5000 if choice.machine.gpus else 250)


def _protocol(choice: Choice) -> Raw:
    return {
        "title": f"torch-fidelity Inception-v3, P/R/D/C at k = 3, reference is the {choice.images:,} training images",
        "extractor": "inception",
        "pr_extractor": "inception",
        "resize": "tf1",
        "k": 3,
        "strict": False,
        "splits": 1,
        "samples": {"default": _samples(choice)},
    }


def _table(choice: Choice) -> Raw:
    name = choice.name
    return {
        "title": name,
        "label": f"tab:{name}",
        "caption": f"RS-IMLE on {choice.images:,} images of {name} at {choice.resolution}×{choice.resolution}, "
        f"{choice.steps:,} steps of {choice.batch}. One seed: no difference between the rows is shown to be more than "
        "chance. The samples are compared with the training images, so copies of them would score best.",
        "protocol": name,
        "head": ["Mapping network"],
        "columns": list(COLUMNS),
        "groups": [
            {
                "rows": [
                    {"title": "8-layer MLP", "experiment": f"{name}_mlp"},
                    {"title": "RTM ($H=8$, $L=1$)", "experiment": f"{name}_rtm", "ours": True},
                ]
            }
        ],
    }


def _figures(name: str) -> Raw:
    both = [f"{name}_{mapper}" for mapper in MAPPERS]
    captions = {
        "samples": "Random samples with the 8-layer MLP (left) and with RTM (right); equal places, equal latents.",
        "neighbours": "Real images and the samples nearest to them, the MLP's above those of RTM: are they copies?",
        "slerp": "From one latent to another, with the MLP and with RTM.",
    }
    return {
        f"fig_{name}_{kind}": {
            "kind": kind,
            "title": f"{name}, {kind}",
            "caption": captions[kind],
            "experiments": both,
            "rows": rows,
            "columns": columns,
        }
        for kind, (rows, columns) in FIGURES.items()
    }
