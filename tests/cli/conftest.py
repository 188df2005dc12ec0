"""Folders in which tests call `rtm`: with checkpoints, and with the inputs of a training."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS, ROOT, checkpoints, fake_results
from support.checkpoints import GAN, IMLE

from rtm.cli import main as cli
from rtm.config import load
from rtm.stages.base import Job
from rtm.stages.train import Train

TRAINING = Train().job(load("smoke", PARAMS), experiment=IMLE, seed=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("work")
    shutil.copytree(PARAMS, root / "params")
    checkpoints.write(root / TRAINING.first, IMLE)
    fake_results.sign(root, TRAINING)
    checkpoints.write(root / "gan.safetensors", GAN)
    return root


@pytest.fixture
def call(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> list[str]:
        """The lines that `rtm` prints, or the sentence of a refusal."""
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["rtm", *words])
        try:
            cli.main()
        except SystemExit:
            return capsys.readouterr().err.splitlines()
        return capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A training of the demo; its inputs have receipts."""
    (tmp_path / "params").symlink_to(ROOT / "params")
    monkeypatch.chdir(tmp_path)
    training = Train().job(load("demo"), experiment="digits_rtm", seed=0)
    for before in training.upstream():
        if before is not training:
            fake_results.write_outputs(before)
    return training
