"""A command for a file names the scale that the file belongs to."""

from pathlib import Path

import pytest

from rtm.config import load
from rtm.core.layout import at_scale


@pytest.mark.parametrize("scale", ["paper", "demo", "smoke"])
def test_the_scale_follows_from_the_folder(scale: str) -> None:
    config = load(scale)
    wanted = "" if scale == "paper" else f" --scale {scale}"
    assert at_scale(config.layout.checkpoint("x", 0), 3) == at_scale(config.layout.root, 0) == wanted
    shared = {"smoke": " --scale smoke"}.get(scale, "")  # the demo shares the paper's data
    assert at_scale(config.layout.images("digits"), 3) == at_scale(config.layout.weights("vgg16"), 2) == shared


def test_trials_and_variants_have_theirs_and_other_files_none() -> None:
    assert at_scale(Path("try/cats/data/cats/images.npy"), 3) == " --scale try/cats"
    assert at_scale(Path("variants/demo"), 0) == " --scale demo"
    assert at_scale(Path("/tmp/data/cats/images.npy"), 3) == at_scale(Path("images.npy"), 3) == ""
    assert at_scale(Path("variants/paper/checkpoints/x/seed0.safetensors"), 3) == ""
