"""Folders in which tests call `rtm`: with checkpoints, and with a store."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS, ROOT, checkpoints, fake_results
from support.checkpoints import GAN, IMLE

from rtm.cli import main as cli
from rtm.config import load
from rtm.core.files import write_text
from rtm.lineage.job import Job
from rtm.lineage.store import SWITCH
from rtm.pipeline.graph import every_job

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
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a store whose remote is a folder. Nothing has been made in it yet."""
    (tmp_path / "params").symlink_to(ROOT / "params")
    write_text(tmp_path / ".dvc/config", "[core]\n    remote = far\n['remote \"far\"']\n    url = ../far\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def job(stored: Path) -> Job:
    """A training of the demo; its inputs have receipts."""
    found = every_job()["demo/train/digits_rtm/seed0"]
    for before in found.upstream():
        if before is not found:
            fake_results.write_outputs(before)
    return found
