"""Unfinished trainings of other code or parameters are named, and taken over only after a refactoring."""

from pathlib import Path
from typing import Any

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import read_json, write_json, write_text
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import Recording, run_folder
from rtm.pipeline import unfinished
from rtm.pipeline.graph import jobs
from rtm.pipeline.unfinished import names_of, note, report_unfinished, resumable, step_of, take_over

BEGUN = "0" * 64


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.chdir(tmp_path)
    return jobs(load("smoke", PARAMS))["train/shells_imle_rtm/seed0"]


def saved(job: Job, name: str, params: dict[str, Any], seed: int = 0, ended: str = "stopped", step: int = 7) -> Path:
    """Write the saved run of a training with these parameters; its folder."""
    folder = run_folder(Ledger(), job).with_name(name)
    times: dict[str, Any] = {"host": "h", "pid": 1, "job": None, "gpus": 0, "began": 0.0, "ended": ended}
    write_json(folder / "run.json", {"experiment": "shells_imle_rtm", "seed": seed, "slices": [times]})
    write_text(folder / "log.jsonl", f'{{"step": {step - 1}}}\n{{"step": {step}}}\n{{"st')
    write_text(folder / "state.pt", "state")
    note(folder, Recording(BEGUN, {**Ledger().parts(job), "params": params}))
    return folder


def other(job: Job) -> dict[str, Any]:
    return {**job.params, "training": {**job.params["training"], "lr": 0.5}}


def older(job: Job) -> dict[str, Any]:
    """The parameters as they were before one of them was written out."""
    return {key: value for key, value in job.params.items() if key != "tf32"}


def test_what_a_run_was_started_with_is_noted_once(tmp_path: Path) -> None:
    parts = {"params": {"lr": 1}, "code": "c", "inputs": {}}
    assert names_of(tmp_path, "first") == ["first"]
    assert note(tmp_path, Recording("first", parts)) == []
    note(tmp_path, Recording("second", {**parts, "params": {"lr": 2}}))
    begun = read_json(tmp_path / "begun.json")
    assert begun == {"fingerprint": "first", "parts": parts, "accepted": []}


def test_another_value_is_named_and_never_taken_over(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(job, "other", other(job))
    report_unfinished(Ledger(), job)
    said = capsys.readouterr().err
    assert said.startswith(
        f"{folder} holds an unfinished training of this seed at step 7, which is not resumed because"
    )
    assert "training.lr: 0.5 -> " in said and f"`rtm lineage accept {job.id} --reason" in said
    assert resumable(Ledger(), job) is None


def test_only_unfinished_runs_of_the_same_seed_are_named(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    saved(job, "done", other(job), ended="done")
    saved(job, "another_seed", other(job), seed=1)
    (saved(job, "without_a_save", other(job)) / "state.pt").unlink()
    report_unfinished(Ledger(), job)
    assert capsys.readouterr().err == ""
    saved(job, "other", other(job))
    saved(job, run_folder(Ledger(), job).name, job.params)  # the job's own run is resumed, so it is not reported
    report_unfinished(Ledger(), job)
    assert capsys.readouterr().err == ""


def test_the_furthest_run_is_taken_over_under_the_new_name(job: Job) -> None:
    saved(job, "near", older(job), step=7)
    far = saved(job, "far", older(job), step=9)
    assert resumable(Ledger(), job) == far
    own = take_over(Ledger(), job, far, "it was written out")
    assert own == run_folder(Ledger(), job) and not far.exists() and step_of(own) == 9
    fingerprint = Ledger().fingerprint(job)
    assert names_of(own, fingerprint) == [fingerprint, BEGUN]
    (trace,) = note(own, Recording(fingerprint, Ledger().parts(job)))
    assert trace["reason"] == "it was written out" and trace["changes"] == ["tf32: absent -> true"]
    assert resumable(Ledger(), job) is None  # the job's own run has a save


def test_a_run_that_is_trained_now_is_not_taken_over(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = saved(job, "older", older(job))
    monkeypatch.setattr(unfinished, "is_running", lambda each: each == folder)
    with pytest.raises(UserError, match=rf"older is being trained; end that training first, then accept {job.id}"):
        resumable(Ledger(), job)


@pytest.mark.parametrize("text", ["{", "[]", '{"fingerprint": "x", "parts": {}, "accepted": []}'])
def test_a_damaged_note_is_named(job: Job, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved(job, "other", other(job))
    write_text(folder / "begun.json", text)
    with pytest.raises(UserError, match=r"begun\.json is damaged .*; delete it: the training resumes"):
        names_of(folder, "x")
    report_unfinished(Ledger(), job)
    assert "because it does not record its code and parameters" in capsys.readouterr().err
    assert resumable(Ledger(), job) is None


def test_a_run_without_a_log_is_at_step_0(tmp_path: Path) -> None:
    assert step_of(tmp_path) == 0
