"""A folder of small pictures, and the network that a trial of them needs."""

from contextlib import chdir
from pathlib import Path

from PIL import Image
from support import ROOT
from support.archives import noise
from support.needed import needed

from rtm.config import load
from rtm.lineage.recording import recorded
from rtm.pipeline.graph import jobs

NUMBER = 16


def with_pictures(folder: Path) -> Path:
    """A workspace with VGG16 and `pictures/`."""
    weights = needed(ROOT / "weights/vgg16.safetensors", "vgg16", "REQUIRE_WEIGHTS")
    (folder / "weights").mkdir()
    (folder / "weights/vgg16.safetensors").symlink_to(weights)
    with chdir(folder), recorded(jobs(load())["fetch/vgg16"]):
        pass
    (folder / "pictures").mkdir()
    for number in range(NUMBER):
        Image.fromarray(noise(40, 40, 3, seed=number)).save(folder / f"pictures/{number}.png")
    return folder


def with_light_trainings(folder: Path) -> Path:
    """Trials of this copy train thin networks, match once and save seldom: no test looks at how good they are."""
    path = folder / "rtm/trial/recipe.py"
    text = path.read_text()
    for old, new in (
        ("width = 256 if choice.machine.gpus else 128", "width = 8"),
        ('"refresh": max(1, round(choice.epochs / ROUNDS))', '"refresh": choice.epochs'),
        ('"save_every": max(1, steps // 20)', '"save_every": 10'),
    ):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return folder
