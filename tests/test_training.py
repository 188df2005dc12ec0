"""`rtm train` as a whole, in a folder of its own: what it does with what it finds there."""

import errno
import shutil
from pathlib import Path

import pytest
import tiny
import torch

from rtm.config import Config, load
from rtm.errors import UserError
from rtm.layout import Layout
from rtm.lineage import Ledger, State
from rtm.pipeline import Job, jobs
from rtm.training import train_experiment

NAME = "shells_imle_rtm"


@pytest.fixture
def smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    config = load("smoke", tiny.PARAMS)
    tiny.fetch(config)
    return config


def train(config: Config) -> None:
    train_experiment(config, Layout.of(config), config.experiment(NAME), 0)


def job(config: Config) -> Job:
    return jobs(config)[f"train/{NAME}/seed0"]


def test_a_finished_training_is_not_begun_again(smoke: Config, capsys: pytest.CaptureFixture[str]) -> None:
    train(smoke)
    shutil.rmtree("smoke/runs")
    capsys.readouterr()
    train(smoke)
    assert capsys.readouterr().out == f"smoke/train/{NAME}/seed0 is finished; nothing is to be done.\n"
    assert not Path("smoke/runs").exists() and Ledger().state(job(smoke)) is State.FRESH


def test_a_full_disk_is_told(smoke: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"The disk of smoke/runs/.* is full; free some space there"):
        train(smoke)
