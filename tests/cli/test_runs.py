"""`rtm runs`: the use of each state. Only states that nothing needs are removed."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from support.fake_results import write_outputs

from rtm.cli import runs as module
from rtm.cli.runs import runs, states
from rtm.core.files import write_json, write_text
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import run_folder
from rtm.lineage.store import SWITCH
from rtm.pipeline.runs import training

NAME, SEED = "digits_rtm", 0


def state(folder: Path, ended: str | None, step: int = 7) -> Path:
    times: dict[str, Any] = {"host": "h", "pid": 1, "job": None, "gpus": 0, "began": 0.0, "seconds": 1.0}
    write_json(folder / "run.json", {"experiment": NAME, "seed": SEED, "slices": [{**times, "ended": ended}]})
    write_text(folder / "log.jsonl", json.dumps({"step": step}) + "\n")
    write_text(folder / "state.pt", "state")
    return folder


def kinds() -> dict[str, str]:
    return {run.folder.name: run.kind for run in states()}


def call(action: str) -> None:
    runs(argparse.Namespace(action=action))


def test_each_state_has_its_kind(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    own = state(run_folder(Ledger(), job), "stopped")
    other = state(own.with_name("0" * 16), "stopped")
    assert kinds() == {own.name: "unfinished", other.name: "orphaned"}
    state(own, "done")
    assert kinds()[own.name] == "not recorded"
    write_outputs(job)
    assert kinds() == {own.name: "finished", other.name: "orphaned"}
    call("list")
    shown = capsys.readouterr().out
    assert str(own) in shown and "step 7" in shown and "removes 1 finished" in shown


def test_only_finished_ones_are_removed(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    own = state(run_folder(Ledger(), job), "done")
    other = state(own.with_name("0" * 16), "stopped")
    call("clean")
    assert own.exists() and other.exists()
    write_outputs(job)
    call("clean")
    assert not own.exists() and other.exists()
    assert f"removed finished       {own}" in capsys.readouterr().out


def test_weights_in_the_store_are_enough_and_changed_ones_are_not(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    own = state(run_folder(Ledger(), job), "done")
    write_outputs(job)
    job.outputs[0].unlink()
    assert kinds()[own.name] == "finished"  # the store has the weights
    monkeypatch.setenv(SWITCH, "off")
    assert kinds()[own.name] == "not recorded"
    write_text(job.outputs[0], "other bytes")
    assert kinds()[own.name] == "not recorded"


def test_a_state_that_is_being_trained_stays(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    own = state(run_folder(Ledger(), job), None)
    write_outputs(job)
    with training(own, NAME, SEED, 0):
        monkeypatch.setattr(module, "is_running", lambda folder: folder == own)  # a process does not see its own lock
        call("clean")
        assert own.exists()
