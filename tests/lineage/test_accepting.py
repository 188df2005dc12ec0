"""A refactoring is accepted, and nothing else: all that is stale behind the jobs, or nothing."""

from pathlib import Path

import pytest
from support.small_jobs import edit, job, make, state, training, why

from rtm.core.errors import UserError
from rtm.core.files import write_json, write_text
from rtm.lineage.acceptance import FILE, Acceptances
from rtm.lineage.accepting import accept
from rtm.lineage.begun import begin, run_folder
from rtm.lineage.freshness import Freshness, State
from rtm.stages.base import Recording

pytestmark = pytest.mark.usefixtures("package")


def refactor(package: Path) -> None:
    edit(package, "third", "return 2", "return 1 + 1")


def test_a_refactoring_is_accepted_for_all_jobs_of_a_stage(package: Path) -> None:
    made = job("train", lr=1)
    make(made)
    receipt = made.receipt.read_text("utf-8")
    refactor(package)
    assert state(made) is State.STALE
    (accepted,) = accept([made], "the same sum")
    assert (accepted.jobs, accepted.reason) == ("train/*", "the same sum")
    assert state(made) is State.FRESH
    assert made.receipt.read_text("utf-8") == receipt
    assert accept([made], "again") == []
    edit(package, "third", "return 1 + 1", "return 3")
    assert state(made) is State.STALE


def test_the_jobs_before_are_accepted_too(package: Path) -> None:
    training = job("train")
    table = job("table", job("train"))
    make(training)
    make(table)
    refactor(package)
    assert [each.jobs for each in accept([table], "the same sum")] == ["train/*", "table/*"]
    assert state(table) is State.FRESH


def test_another_value_cannot_be_accepted(package: Path) -> None:
    make(job("train", lr=1))
    refactor(package)
    with pytest.raises(UserError, match=r"train/x cannot be accepted: lr: 1 -> 2\. Make it with"):
        accept([job("train", lr=2)], "no")


def test_all_is_accepted_or_nothing(package: Path) -> None:
    training = job("train")
    evaluation = job("evaluate")
    make(training)
    make(evaluation)
    refactor(package)
    training.first.write_text("TEXT", "utf-8")
    with pytest.raises(UserError, match=r"train/x cannot be accepted: .*is not the recorded one"):
        accept([evaluation, training], "no")
    assert state(evaluation) is State.STALE
    assert not FILE.exists()


def test_a_begun_training_goes_on_after_its_code_was_accepted(package: Path) -> None:
    begun = training()
    recording = Recording("fingerprint", Freshness().parts(begun))
    folder = begin(begun, recording)
    write_text(folder / "state.pt", "state")
    slices = [{"host": "h", "pid": 1, "job": None, "gpus": 0, "began": 0.0, "ended": "stopped"}]
    write_json(folder / "run.json", {"experiment": "x", "seed": 0, "slices": slices})
    refactor(package)
    now = Recording("fingerprint", Freshness().parts(begun))
    assert run_folder(begun, now.parts) == folder
    with pytest.raises(UserError, match=r"begun with other code.*rtm lineage accept train/x/seed0 --reason"):
        begin(begun, now)
    accept([begun], "the same sum")
    assert begin(begun, now) == folder
    assert (folder / "state.pt").exists()
    assert len(Acceptances.read()) == 1
    assert why(begun) == ["it was never made"]
