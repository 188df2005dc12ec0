"""A receipt is written last and describes the code that ran. A job that would lose work is refused before it starts."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from support.small_jobs import forget, job, make, state

from rtm.core.errors import UserError
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.recording import recorded

pytestmark = pytest.mark.usefixtures("package")


def test_a_failed_job_leaves_no_receipt() -> None:
    with pytest.raises(RuntimeError), recorded(job("train")):
        raise RuntimeError
    assert not job("train").receipt.exists()


@pytest.mark.parametrize(("given", "recorded_as"), [("", None), ("cluster", "cluster")])
def test_the_name_of_the_host_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, given: str, recorded_as: str | None
) -> None:
    monkeypatch.setenv("RTM_HOST", given)
    make(job("train"))
    assert json.loads(job("train").receipt.read_text())["made"].get("host") == recorded_as
    assert state(job("train")) is State.FRESH


def test_the_fingerprint_is_that_of_the_start(package: Path) -> None:
    with recorded(job("train")):
        (package / "third.py").write_text("def all():\n    return 9\n")
        Path("out").mkdir()
        Path("out/train.txt").write_text("text")
    forget()
    assert Ledger().why(job("train")) == ["code of rtm.third:all changed"]


def test_the_same_bytes_again_leave_those_after_fresh() -> None:
    train = job("train", lr=1)
    evaluate = job("evaluate", train)
    make(train)
    make(evaluate)
    receipt = train.receipt.read_text()
    make(train)
    assert train.receipt.read_text() == receipt
    assert state(evaluate) is State.FRESH
    make(train, "other")
    assert Ledger().why(evaluate) == ["train/x has a new result"]


def test_a_reference_made_again_elsewhere_keeps_its_identity() -> None:
    def chain(resize: str = "none") -> Job:
        return job("evaluate", job("reference", resize=resize))

    (reference,) = chain().inputs
    make(reference)
    make(chain())
    for text in ("rounded otherwise", "otherwise again"):
        reference.outputs[0].unlink()
        make(reference, text)
        assert state(reference) is State.FRESH and state(chain()) is State.FRESH
    make(chain("tf1").inputs[0], "other features")
    assert Ledger().why(chain("tf1")) == ["reference/x has a new result"]


def test_a_lost_training_is_not_repeated() -> None:
    train = job("train")
    make(train)
    train.outputs[0].unlink()
    with pytest.raises(UserError, match="dvc pull out"):
        make(train)
    run = Path("runs/x", Ledger().fingerprint(train)[:16])
    run.mkdir(parents=True)
    with pytest.raises(UserError, match="dvc pull out"):
        make(train)
    (run / "state.prev.pt").touch()  # allowed if the state of the run is here
    make(train)
    assert state(train) is State.FRESH


def test_a_training_that_lost_its_receipt_is_not_repeated() -> None:
    train = job("train")
    weights = train.outputs[0]
    weights.parent.mkdir()
    save_file({"w": np.zeros(1)}, weights, {"rtm": json.dumps({"run": Ledger().fingerprint(train)})})
    message = r"train/x is trained, but it has no receipt: bring it back with `git checkout -- lineage/train/x\.json`"
    with pytest.raises(UserError, match=message):
        make(train)
    save_file({"w": np.zeros(1)}, weights, {"rtm": json.dumps({"run": "another"})})
    make(train)
    assert state(train) is State.FRESH


def test_samples_of_other_parameters_are_refused() -> None:
    train = job("train")
    make(train)
    make(job("sample", train, temporary=True, samples=10))
    with pytest.raises(
        UserError, match=r"evaluate/x needs sample/x: samples: 10 -> 20.*--cores all --notemp -- samples"
    ):
        make(job("evaluate", job("sample", train, temporary=True, samples=20)))
