"""`rtm train` as a whole, in a separate folder that holds earlier runs or none."""

import errno
import shutil
from pathlib import Path

import pytest
import torch
from support import PARAMS, smoke_workspace

from rtm.cli.lineage import accept
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.core.files import read_json
from rtm.lineage.fingerprint import Code, present
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger, State
from rtm.pipeline.graph import jobs
from rtm.pipeline.runs import log_rows
from rtm.training.launch import train_experiment

NAME, METHOD = "shells_imle_rtm", "rtm.methods.imle.method"


@pytest.fixture
def smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    config = load("smoke", PARAMS)
    smoke_workspace.fetch(config, "shells")
    return config


def train(config: Config) -> None:
    train_experiment(config, config.layout, config.experiment(NAME), 0)


def job(config: Config) -> Job:
    return jobs(config)[f"train/{NAME}/seed0"]


def test_a_finished_training_does_not_start_again(smoke: Config, capsys: pytest.CaptureFixture[str]) -> None:
    train(smoke)
    shutil.rmtree("smoke/runs")
    capsys.readouterr()
    train(smoke)
    assert capsys.readouterr().out == f"smoke/train/{NAME}/seed0 is finished; there is nothing to do.\n"
    assert not Path("smoke/runs").exists() and Ledger().state(job(smoke)) is State.FRESH


def test_a_full_disk_is_an_error(smoke: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"The disk of smoke/runs/.* is full; free some space there"):
        train(smoke)


def test_an_unfinished_training_is_reported_and_resumed(
    smoke: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin() -> str:
        """Start it, stop it at its first check, and return the messages."""
        capsys.readouterr()
        with monkeypatch.context() as patch, pytest.raises(SystemExit):
            patch.setattr("rtm.training.loop.listen", lambda stop: stop())
            train(smoke)
        return capsys.readouterr().err

    def written_otherwise(how: str) -> None:
        sources = dict(present().sources)
        changed = sources[METHOD].replace("class ImleMethod(", f"@print({how!r})\nclass ImleMethod(")
        sources[METHOD] = changed
        code = Code(sources, present().files)
        monkeypatch.setattr("rtm.lineage.receipts.present", lambda: code)

    assert "unfinished" not in begin()
    (first,) = Path(f"smoke/runs/{NAME}").iterdir()
    written_otherwise("written otherwise")
    accept([job(smoke)], "a local name")
    (second,) = Path(f"smoke/runs/{NAME}").iterdir()
    assert second != first and f"goes on from {second}" in capsys.readouterr().out
    train(smoke)
    assert read_json(job(smoke).receipt)["made"]["accepted"][0]["changes"] == [
        "code of rtm.methods.imle.method:ImleMethod changed"
    ]
    steps = [row["step"] for row in log_rows(second / "log.jsonl")]
    assert steps == sorted(set(steps))  # it resumed

    job(smoke).outputs[0].unlink()
    job(smoke).receipt.unlink()
    shutil.rmtree(second)
    begin()
    written_otherwise("another sum")
    messages = begin()
    assert f"{second} holds an unfinished training of this seed at step 1, which is not resumed because" in messages
    assert "code of rtm.methods.imle.method:ImleMethod changed. After a refactoring" in messages
