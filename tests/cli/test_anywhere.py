"""The verbs that need no `params/`: evaluate in any folder. tests/test_light.py runs them in light installs."""

import json
from pathlib import Path

import numpy as np
from safetensors.torch import save_file
from support.command import rtm

from rtm.models.digits import DigitClassifier


def test_any_two_sets_are_measured_in_any_folder(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    np.save(tmp_path / "a.npy", images[:30])
    np.save(tmp_path / "b.npy", images[30:])
    (tmp_path / "weights").mkdir()
    save_file(DigitClassifier().state_dict(), tmp_path / "weights/digit_classifier.safetensors")
    words = ("evaluate", "a.npy", "b.npy", "--protocol", "digits", "--json", "result.json")
    answer = rtm(*words, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert "protocol digits" in answer.stdout and "coverage" in answer.stdout
    assert json.loads((tmp_path / "result.json").read_text("utf-8"))["samples"] == 30


def test_one_set_alone_says_what_is_missing(tmp_path: Path) -> None:
    answer = rtm("evaluate", "a.npy", cwd=tmp_path)
    assert answer.returncode == 1 and "Say what to compare with: `rtm evaluate A B`" in answer.stderr
