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
    """Trials of this copy train thin networks, match once and save seldom, because no test checks their quality.

    While there is a file `held`, they wait after the first line of their log. Fingerprints do not change.
    """
    written = r'file.write(json.dumps(row) + "\n")'
    held = f"{written}\n        while Path('held').exists():\n            time.sleep(0.05)"
    for path, old, new in (
        ("rtm/trial/recipe.py", "width = 256 if choice.machine.gpus else 128", "width = 8"),
        ("rtm/trial/recipe.py", '"refresh": max(1, round(choice.epochs / ROUNDS))', '"refresh": choice.epochs'),
        ("rtm/trial/recipe.py", '"save_every": max(1, steps // 20)', '"save_every": 10'),
        ("rtm/core/files.py", written, held),
    ):
        text = (folder / path).read_text()
        assert old in text
        (folder / path).write_text(text.replace(old, new))
    return folder
