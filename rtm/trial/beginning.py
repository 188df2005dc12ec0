"""The beginning of a trial: look at the pictures, prepare them, time the machine, and write the parameters."""

import fcntl
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Console
from typing_extensions import TypedDict

from rtm.config import Config, load
from rtm.core.errors import UserError, printable
from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.data.prepare import prepare
from rtm.pipeline.amounts import counted
from rtm.stages import stages
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network
from rtm.stages.report import Report
from rtm.training.devices import usable_gpus
from rtm.trial import recipe
from rtm.trial.images import Squares, Survey, listed, state_of, survey, write_squares
from rtm.trial.recipe import TRAININGS, Choice, Machine

if TYPE_CHECKING:
    from torch import nn

NOTES = "begun.json"
LONGEST = 40  # letters of a name, because names of files contain it
TAKEN = {"all", "paper", "demo", "desk", "smoke", "doctor", *stages()}  # have another meaning
IMAGES = 32  # number of images for the timing
STEPS = 3
CORRECTIONS = 6  # of the length of a training

Options = Mapping[str, float | None]  # minutes, epochs, resolution


class Notes(TypedDict):
    """What the beginning of a trial notes for the next call."""

    source: str  # the place of the images
    state: str  # a hash of their names and sizes
    options: dict[str, float | None]


def name_of(source: Path) -> str:
    """A name for params/, from the name of the folder or archive."""
    stem = source.resolve().name.split(".")[0].lower()
    plain = re.sub(r"[^a-z0-9]+", "_", stem)[:LONGEST].strip("_")
    if plain[:1].isalpha() and plain not in TAKEN:
        return plain
    return f"images_{plain}"[:LONGEST].rstrip("_")


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let only one `rtm try` of a trial run at a time."""
    folder = recipe.folder_of(name)
    folder.parent.mkdir(exist_ok=True)
    with open(folder.with_name(f".{name}.lock"), "w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another `rtm try` works on {folder}; look at it with `rtm status --watch --scale {folder}`, or give "
                "this one another name with --name."
            ) from None
        yield


def machine_here() -> Machine:
    gpus = min(4, usable_gpus())
    power_of_two = 1 << (gpus.bit_length() - 1) if gpus else 0
    return Machine(len(os.sched_getaffinity(0)), power_of_two)


def is_begun(name: str, source: Path) -> bool:
    """Whether this trial has its parameters; an error if they are for other images."""
    folder = recipe.folder_of(name)
    if not (folder / "params.yaml").exists():
        return False
    known = _notes(folder)["source"]
    if known != printable(source.resolve()):
        raise UserError(f"{folder} is a trial of {known}; give this one another name with --name.")
    return True


def go_on(name: str, source: Path, options: Options, console: Console) -> None:
    """Check that the command asks for the trial that was begun."""
    folder = recipe.folder_of(name)
    notes = _notes(folder)
    for option, value in options.items():
        before = notes["options"][option]
        if value not in (None, before):
            was = f"with --{option} {before:g}" if before is not None else f"without --{option}"
            raise UserError(
                f"{folder} is a trial {was}, not {value:g}; leave --{option} out to go on, edit {folder}/params.yaml, "
                "or begin another trial with --name."
            )
    console.print(f"Going on with {folder}/params.yaml.")
    if source.exists() and notes["state"] != state_of(source):
        console.print(
            f"{source} has other images than at the beginning, and the trial keeps those it has; for a trial of the "
            f"new ones give another --name, or delete {folder}."
        )


def _notes(folder: Path) -> Notes:
    notes: Notes = read_json(folder / NOTES, Notes, f"delete {folder} to begin anew")
    return notes


def begin(name: str, source: Path, options: Options, console: Console) -> None:
    """Prepare the images and write the parameters; print how long the trial will take."""
    machine = machine_here()
    content, choice = look(source, machine, name, options["resolution"])
    choice, squares, sha256 = prepared(source, content, choice)
    for sentence in remarks(content, squares, choice):
        console.print(sentence)
    choice, seconds = timed(choice, sha256, options["minutes"], options["epochs"])
    write(choice, sha256, source, 2 * seconds / 3600, options)
    announce(choice, seconds, console)


def refuse_lengths(options: Options) -> None:
    if options["minutes"] is not None and options["epochs"] is not None:
        raise UserError("Give --minutes or --epochs, not both.")
    for option in ("minutes", "epochs"):
        value = options[option]
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"--{option} is {value}; give a number above 0.")


def look(source: Path, machine: Machine, name: str, resolution: float | None) -> tuple[Survey, Choice]:
    """A survey of the pictures, and a suitable trial; its length is chosen later."""
    content = survey(source)
    side = int(resolution or recipe.resolution_for(content.side, machine))
    count = min(len(content.pictures), machine.images)
    choice = Choice(name, count, side, machine, recipe.FEWEST_EPOCHS)
    return content, replace(choice, epochs=recipe.epochs_for(recipe.FEWEST_STEPS, choice))


def prepared(source: Path, content: Survey, choice: Choice) -> tuple[Choice, Squares, str]:
    """Cut the pictures to squares and prepare them as a dataset. If there are too many, choose some, evenly spread."""
    name = choice.name
    root = recipe.folder_of(name)
    last = len(content.pictures) - 1
    places = np.linspace(0, last, choice.images).round().astype(int)
    pictures = [content.pictures[place] for place in places]
    squares = write_squares(source, pictures, root / "downloads" / name, choice.resolution)
    choice = replace(choice, images=squares.count)
    dataset = provisional(choice, "0" * 64).params.datasets[name].model_copy(update={"sha256": None})
    images = root / Dataset.files["images"].format(dataset=name)
    sums = prepare(name, dataset, images, root / "downloads" / name)
    return choice, squares, sums["images.npy"]


def provisional(choice: Choice, sha256: str) -> Config:
    """The parameters of a choice before they are written."""
    own = recipe.folder_of(choice.name)
    with tempfile.TemporaryDirectory() as folder:
        params = Path(folder) / "params"
        params.mkdir()
        recipe.write(Path(folder) / own / "params.yaml", choice, sha256, 1.0)
        return load(str(own), params)


def write(choice: Choice, sha256: str, source: Path, hours: float, options: Options) -> Path:
    """Write the parameters. They come last, so that a trial with parameters is complete."""
    folder = recipe.folder_of(choice.name)
    notes: Notes = {
        "source": printable(source.resolve()),
        "state": state_of(source),
        "options": {**options, "epochs": choice.epochs, "resolution": choice.resolution},
    }
    write_json(folder / NOTES, notes)
    return recipe.write(folder / "params.yaml", choice, sha256, hours)


@dataclass(frozen=True)
class Pace:
    """How fast this machine trains."""

    step: float  # seconds
    pooled: float  # seconds for each image of a pool: to decode it, get its features and compare it

    def seconds(self, choice: Choice) -> float:
        """The seconds of a whole training."""
        images = choice.steps * choice.batch
        rounds = math.ceil(images / (choice.images * choice.refresh))
        pooled = rounds * choice.pool * choice.images
        return choice.steps * self.step + pooled * self.pooled


def timed(choice: Choice, sha256: str, minutes: float | None, epochs: float | None) -> tuple[Choice, float]:
    """The trial with its length (given, or suitable for the machine), and the seconds that the trainings take."""
    pace = _pace(choice, sha256)
    times = TRAININGS / choice.machine.at_once
    if epochs is None:
        budget = 60 * (minutes or choice.machine.minutes) / times
        epochs = _fitting_epochs(choice, pace, budget)
    choice = replace(choice, epochs=int(epochs))
    return choice, pace.seconds(choice) * times


def _pace(choice: Choice, sha256: str) -> Pace:
    """Time a few steps of the slower training."""
    import torch

    from rtm.core.devices import best_device
    from rtm.training.rehearsal import time_steps

    config = provisional(choice, sha256)
    experiment = config.experiments[f"{choice.name}_rtm"]
    torch.set_num_threads(experiment.recipe.resources.cpus)
    few = replace(experiment, dataset=experiment.dataset.model_copy(update={"count": IMAGES}))
    timing = time_steps(few, Network().of(config, "lpips").first, best_device(), STEPS)
    assert timing.chunk is not None and experiment.recipe.imle is not None
    return Pace(timing.step, timing.chunk / experiment.recipe.imle.chunk)


def _fitting_epochs(choice: Choice, pace: Pace, budget: float) -> int:
    """The epochs of a training that takes about `budget` seconds. The time is not proportional to the steps, because
    the size of a pool has limits; so the length is corrected a few times."""
    epochs = float(choice.epochs)
    for _ in range(CORRECTIONS):
        tried = replace(choice, epochs=max(1, round(epochs)))
        epochs *= budget / pace.seconds(tried)
    steps = epochs * choice.images / choice.batch
    return recipe.epochs_for(max(recipe.FEWEST_STEPS, steps), choice)


def remarks(content: Survey, squares: Squares, choice: Choice) -> Sequence[str]:
    """Sentences about pictures that are left out or changed."""
    broken = [*content.broken, *squares.broken]
    total = len(content.pictures)
    sentences: list[str] = []
    if broken:
        sentences.append(f"Left out, since they cannot be read: {listed(broken)}.")
    if squares.copies:
        sentences.append(f"Left out, since they are copies of other images: {squares.copies}.")
    if content.linked:
        sentences.append(f"Links are followed: {content.linked:,} of {total:,} images are elsewhere.")
    if content.others:
        sentences.append(f"Left out, since they are no images of a kind that is read here: {listed(content.others)}.")
    if total > choice.machine.images:
        sentences.append(f"{choice.images:,} of {total:,} images are used, spread evenly: more need a GPU.")
    if content.side < choice.resolution:
        sentences.append(f"Most images have fewer than {choice.resolution} px; they are enlarged.")
    return sentences


def announce(choice: Choice, seconds: float, console: Console) -> None:
    from rtm.models.generator import build_generator

    config = load(str(recipe.folder_of(choice.name)))
    mlp, rtm = (build_generator(experiment.architecture) for experiment in config.experiments.values())
    machine = choice.machine
    place = counted(machine.gpus, "GPU") if machine.gpus else counted(machine.cores, "CPU core")
    minutes = counted(max(1, round(seconds / 60)), "minute")
    lines = {
        "images": f"{choice.images:,} at {choice.resolution} x {choice.resolution} px",
        "networks": f"decoder {_size(mlp.decoder)} parameters, MLP {_size(mlp.mapper)}, RTM {_size(rtm.mapper)}",
        "training": f"{choice.steps:,} steps of {choice.batch} images each, by RS-IMLE, on {place}",
        "time": f"about {minutes} of training, measured on this machine just now",
        "parameters": f"{config.root}/params.yaml",
        "pictures so far": f"{Report().job(config).first} (it refreshes itself)",
    }
    for title, text in lines.items():
        console.print(f"{title:<16} {text}")


def _size(network: "nn.Module") -> str:
    return f"{sum(weight.numel() for weight in network.parameters()) / 1e6:.2f} M"
