"""A receipt is written last and describes the code that ran. A job that would lose work is refused before it starts."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.small_jobs import job, make, state, training, why

from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.lineage.begun import run_folder
from rtm.lineage.code import present
from rtm.lineage.freshness import Freshness, State
from rtm.lineage.recording import recorded, run
from rtm.stages.base import Job, Recording, Stage

pytestmark = pytest.mark.usefixtures("package")


def test_a_failed_job_leaves_no_receipt() -> None:
    with pytest.raises(RuntimeError), recorded(job("train")):
        raise RuntimeError
    assert not job("train").receipt.exists()


@pytest.mark.parametrize(("given", "name"), [("", None), ("cluster", "cluster")])
def test_the_name_of_the_host_can_be_left_out(monkeypatch: pytest.MonkeyPatch, given: str, name: str | None) -> None:
    monkeypatch.setenv("RTM_HOST", given)
    make(job("train"))
    assert json.loads(job("train").receipt.read_text("utf-8"))["made"].get("host") == name
    assert state(job("train")) is State.FRESH


def test_the_code_is_that_of_the_start(package: Path) -> None:
    before = present().root(job("train").code)
    with recorded(job("train")):
        (package / "third.py").write_text("def all():\n    return 9\n", "utf-8")
        write_text("out/train.txt", "text")
    present.cache_clear()
    assert json.loads(job("train").receipt.read_text("utf-8"))["parts"]["code"] == before
    assert state(job("train")) is State.STALE


def test_the_same_bytes_again_leave_those_after_fresh() -> None:
    before = job("train", lr=1)
    evaluation = job("evaluate", before)
    make(before)
    make(evaluation)
    receipt = before.receipt.read_text("utf-8")
    make(before)
    assert before.receipt.read_text("utf-8") == receipt
    assert state(evaluation) is State.FRESH
    make(before, "other")
    assert why(evaluation) == ["train/x has a new result"]


def test_a_reference_made_again_elsewhere_keeps_its_identity() -> None:
    def evaluation(resize: str = "none") -> Job:
        return job("evaluate", job("reference", resize=resize, keeper="nobody"))

    (reference,) = evaluation().inputs
    make(reference)
    make(evaluation())
    for text in ("rounded otherwise", "otherwise again"):
        reference.first.unlink()
        make(reference, text)
        assert state(reference) is State.FRESH
        assert state(evaluation()) is State.FRESH
    make(evaluation("tf1").inputs[0], "other features")
    assert why(evaluation("tf1")) == ["reference/x has a new result"]


def test_a_lost_training_is_not_repeated() -> None:
    made = training()
    make(made)
    made.first.unlink()
    with pytest.raises(UserError, match="dvc pull checkpoints/x"):
        make(made)
    folder = run_folder(made, Freshness().parts(made))
    write_text(folder / "log.jsonl", "")
    with pytest.raises(UserError, match="dvc pull checkpoints/x"):
        make(made)
    (folder / "state.prev.pt").touch()  # allowed if the state of the run is here
    make(made)
    assert state(made) is State.FRESH


def test_a_training_that_lost_its_receipt_is_not_repeated() -> None:
    made = training()
    made.first.parent.mkdir(parents=True)
    fingerprint = Freshness().fingerprint(made)
    save_file({"w": np.zeros(1)}, made.first, {"rtm": json.dumps({"run": fingerprint})})
    receipt = r"lineage/train/x/seed0\.json"
    message = rf"train/x/seed0 is trained, but it has no receipt: bring it back with `git checkout -- {receipt}`"
    with pytest.raises(UserError, match=message):
        make(made)
    save_file({"w": np.zeros(1)}, made.first, {"rtm": json.dumps({"run": "another"})})
    make(made)
    assert state(made) is State.FRESH


def test_a_job_runs_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Snakemake forces a job if it did not see its end."""
    runs: list[str] = []

    def write(self: Stage, job: Job, recording: Recording, **options: object) -> None:
        runs.append(recording.fingerprint)
        for path in job.outputs.values():
            write_text(path, "text")

    monkeypatch.setattr(Stage, "make", write)
    run(training())
    run(training())
    assert runs == [Freshness().fingerprint(training())]
    assert capsys.readouterr().out == "train/x/seed0 is finished; there is nothing to do.\n"


def test_a_process_of_a_training_leaves_the_receipt_to_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Stage, "make", lambda self, job, recording, **options: None)
    monkeypatch.setenv("RANK", "1")
    run(training())
    assert not training().receipt.exists()
