"""The verbs that need no `params/`: evaluate in any folder. tests/test_light.py runs them in light installs."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file
from support import PARAMS
from support.command import rtm

from rtm.models.digits import DigitClassifier


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Fewer images than the protocol asks for, and its network."""
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", images[:30])
    np.save(tmp_path / "b.npy", images[30:])
    (tmp_path / "weights").mkdir()
    save_file(DigitClassifier().state_dict(), tmp_path / "weights/digit_classifier.safetensors")
    return tmp_path


def test_any_two_sets_are_measured_alike_in_any_folder_and_in_a_clone(folder: Path) -> None:
    words = ("evaluate", "a.npy", "b.npy", "--protocol", "digits", "--scale", "demo", "--json")
    outside = rtm(*words, "outside.json", cwd=folder)
    (folder / "params").symlink_to(PARAMS)
    inside = rtm(*words, "inside.json", cwd=folder)
    assert outside.returncode == inside.returncode == 0, outside.stderr + inside.stderr
    assert outside.stdout == inside.stdout and "off protocol: 30 images instead of 1,797" in inside.stdout
    results = [json.loads((folder / name).read_text("utf-8")) for name in ("outside.json", "inside.json")]
    assert results[0]["metrics"] == results[1]["metrics"] and results[0]["samples"] == 30


def test_copies_are_not_looked_for_without_the_datasets(folder: Path) -> None:
    answer = rtm("evaluate", "a.npy", "b.npy", "--protocol", "digits", "--memorisation", cwd=folder)
    assert answer.returncode == 1 and "--memorisation needs the datasets of params/" in answer.stderr


def test_one_set_alone_says_what_is_missing(tmp_path: Path) -> None:
    answer = rtm("evaluate", "a.npy", cwd=tmp_path)
    assert answer.returncode == 1 and "Say what to compare with: `rtm evaluate A B`" in answer.stderr
