"""A folder of small pictures, and the network that a trial of them needs."""

from contextlib import chdir
from pathlib import Path

from PIL import Image
from support import ROOT
from support.archives import noise
from support.needed import needed

from rtm.config import load
from rtm.lineage.recording import recorded
from rtm.stages.network import Network

NUMBER = 16


def with_pictures(folder: Path) -> Path:
    """A workspace with VGG16 and `pictures/`."""
    weights = needed(ROOT / "weights/vgg16.safetensors", "vgg16", "REQUIRE_WEIGHTS")
    (folder / "weights").mkdir()
    (folder / "weights/vgg16.safetensors").symlink_to(weights)
    with chdir(folder), recorded(Network().job(load(), network="vgg16")):
        pass
    (folder / "pictures").mkdir()
    for number in range(NUMBER):
        Image.fromarray(noise(40, 40, 3, seed=number)).save(folder / f"pictures/{number}.png")
    return folder


def with_light_trainings(folder: Path) -> Path:
    """Trials of this copy train thin networks, match once and save seldom, because no test checks their quality.

    While there is a file `held`, they wait after the first line of their log. Fingerprints do not change.
    """
    written = "file.write(line(row))"
    held = f"{written}\n        while Path('held').exists():\n            __import__('time').sleep(0.05)"
    for path, old, new in (
        ("rtm/trial/params.yaml.j2", "    width: {{ width }}", "    width: 8"),
        ("rtm/trial/params.yaml.j2", "refresh: {{ refresh }}", "refresh: {{ epochs }}"),
        ("rtm/trial/params.yaml.j2", "save_every: {{ [1, steps // 20] | max }}", "save_every: 10"),
        ("rtm/core/files.py", written, held),
    ):
        text = (folder / path).read_text("utf-8")
        assert old in text
        (folder / path).write_text(text.replace(old, new), "utf-8")
    return folder
