"""A folder with params/ and one trained experiment, and `rtm` in it."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS, checkpoints
from support.checkpoints import GAN, IMLE

from rtm.cli import main as cli
from rtm.config import load

LAYOUT = load("smoke", PARAMS).layout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("work")
    shutil.copytree(PARAMS, root / "params")
    checkpoints.write(root / LAYOUT.checkpoint(IMLE, 0), IMLE)
    checkpoints.write(root / "gan.safetensors", GAN)
    return root


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> list[str]:
        """The lines that `rtm` prints; for a refusal its sentence."""
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["rtm", *words])
        try:
            cli.main()
        except SystemExit:
            return capsys.readouterr().err.splitlines()
        return capsys.readouterr().out.splitlines()

    return run
