"""The states of trainings in runs/: what each is, and which of them nothing needs."""

from pathlib import Path

import pytest
from support import PARAMS
from support.fake_results import write_outputs

from rtm.config import load
from rtm.core.files import write_json, write_text
from rtm.lineage.begun import run_folder
from rtm.lineage.freshness import Freshness
from rtm.pipeline import states
from rtm.stages.base import Job
from rtm.stages.train import Train


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """A training of the demo, with its inputs."""
    training = Train().job(load("demo", PARAMS), experiment="digits_rtm", seed=0)
    monkeypatch.chdir(tmp_path)
    Path("params").symlink_to(PARAMS)
    for before in training.upstream():
        if before is not training:
            write_outputs(before)
    return training


def folder_of(job: Job) -> Path:
    return run_folder(job, Freshness().parts(job))


def save(folder: Path, ended: str) -> Path:
    times = {"host": "h", "pid": 1, "job": None, "gpus": 0, "began": 0.0, "seconds": 1.0, "ended": ended}
    write_json(folder / "run.json", {"experiment": "digits_rtm", "seed": 0, "slices": [times]})
    write_text(folder / "log.jsonl", '{"step": 7}\n')
    write_text(folder / "state.pt", "state")
    return folder


def kinds() -> dict[str, str]:
    return {run.folder.name: run.kind for run in states.states()}


def test_each_state_has_its_kind(job: Job) -> None:
    own = save(folder_of(job), "stopped")
    other = save(own.with_name("0" * 16), "stopped")
    assert kinds() == {own.name: "unfinished", other.name: "orphaned"}
    save(own, "done")
    assert kinds()[own.name] == "not recorded"
    write_outputs(job)
    assert kinds() == {own.name: "finished", other.name: "orphaned"}
    write_text(job.first, "other bytes")
    assert kinds()[own.name] == "not recorded"
    job.first.unlink()
    assert kinds()[own.name] == "not recorded"


def test_a_state_that_is_being_trained_is_told(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    own = save(folder_of(job), "done")
    write_outputs(job)
    monkeypatch.setattr(states, "is_running", lambda folder: folder == own)
    assert kinds() == {own.name: "being trained"}


def test_a_state_has_its_step_and_its_size(job: Job) -> None:
    own = save(folder_of(job), "stopped")
    (run,) = states.states()
    assert (run.folder, run.seed, run.step) == (own, 0, 7)
    assert run.size == sum(path.stat().st_size for path in own.iterdir())
    assert run.age >= 0
