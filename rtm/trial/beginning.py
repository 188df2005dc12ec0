"""The beginning of a trial: look at the pictures, prepare them, time the machine, and write the parameters."""

import fcntl
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from rtm.config import Config, load
from rtm.config.experiments import Dataset
from rtm.core.errors import UserError, printable
from rtm.core.files import write_text
from rtm.core.layout import Layout
from rtm.data.prepare import prepare
from rtm.lineage.job import Stage
from rtm.pipeline.devices import usable_gpus
from rtm.trial import recipe
from rtm.trial.images import Kept, Survey, keep, state_of, survey
from rtm.trial.recipe import Choice, Machine

SOURCE = "source.txt"  # the folder or archive of a trial's images, and a hash of its content
LONGEST = 40  # letters of a name, because names of files contain it
TAKEN = {"all", "paper", "demo", "desk", "smoke", "doctor", "dataset", "network", *Stage}  # have another meaning


def name_of(source: Path) -> str:
    """A name for params/, from the name of the folder or archive."""
    plain = re.sub(r"[^a-z0-9]+", "_", source.resolve().name.split(".")[0].lower())[:LONGEST].strip("_")
    return plain if plain[:1].isalpha() and plain not in TAKEN else f"images_{plain}"[:LONGEST].rstrip("_")


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Let only one `rtm try` of a trial run at a time."""
    folder = recipe.folder_of(name)
    folder.parent.mkdir(exist_ok=True)
    with open(folder.with_name(f".{name}.lock"), "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another `rtm try` works on {folder}; look at it with `rtm status --watch --scale {folder}`, or give "
                "this one another name with --name."
            ) from None
        yield


def machine_here() -> Machine:
    found = min(4, usable_gpus())
    return Machine(len(os.sched_getaffinity(0)), 1 << (found.bit_length() - 1) if found else 0)


def is_begun(name: str, source: Path) -> bool:
    """Whether this trial has its parameters; an error if they are for other images."""
    folder = recipe.folder_of(name)
    if not (folder / "params.yaml").exists():
        return False
    known = _noted(folder)[0]
    if known != printable(source.resolve()):
        raise UserError(f"{folder} is a trial of {known or 'other images'}; give this one another name with --name.")
    return True


def has_changed(name: str, source: Path) -> bool:
    """Whether the images in the folder or archive have changed since the beginning of the trial."""
    return source.exists() and _noted(recipe.folder_of(name))[1] not in ("", state_of(source))


def _noted(folder: Path) -> tuple[str, str]:
    lines = (folder / SOURCE).read_text().splitlines() if (folder / SOURCE).exists() else []
    place, state, *_ = [*lines, "", ""]
    return place, state


def look(source: Path, machine: Machine, name: str, resolution: int | None) -> tuple[Survey, Choice]:
    """A survey of the pictures, and a suitable trial; its length is chosen later."""
    found = survey(source)
    side = resolution or recipe.resolution_for(found.side, machine)
    count = min(len(found.pictures), machine.images)
    choice = Choice(name, count, side, machine, recipe.FEWEST_EPOCHS)
    return found, replace(choice, epochs=recipe.epochs_for(recipe.FEWEST_STEPS, choice))


def prepared(source: Path, found: Survey, choice: Choice) -> tuple[Choice, Kept, str]:
    """Cut the pictures to squares and prepare them as a dataset. If there are too many, choose some, evenly spread."""
    layout = Layout(recipe.folder_of(choice.name), recipe.folder_of(choice.name))
    spread = np.linspace(0, len(found.pictures) - 1, choice.images).round().astype(int)
    folder = layout.downloads() / choice.name
    kept = keep(source, [found.pictures[place] for place in spread], folder, choice.resolution)
    choice = replace(choice, images=kept.count)
    described = recipe.parameters(choice, "0" * 64, 1.0)["datasets"][choice.name]
    dataset = Dataset.model_validate({**described, "sha256": None})
    sums = prepare(choice.name, dataset, layout.images(choice.name), folder)
    return choice, kept, sums["images.npy"]


def provisional(choice: Choice, sha256: str) -> Config:
    """The parameters of a choice before they are written."""
    with tempfile.TemporaryDirectory() as folder:
        params = Path(folder) / "params"
        params.mkdir()
        recipe.write(Path(folder) / recipe.folder_of(choice.name) / "params.yaml", choice, sha256, 1.0)
        return load(str(recipe.folder_of(choice.name)), params)


def write(choice: Choice, sha256: str, source: Path, hours: float) -> Path:
    """Write the parameters. They come last, so that a trial with parameters is complete."""
    folder = recipe.folder_of(choice.name)
    write_text(folder / SOURCE, f"{printable(source.resolve())}\n{state_of(source)}\n")
    return recipe.write(folder / "params.yaml", choice, sha256, hours)
