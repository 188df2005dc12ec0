"""Freshness by content: the jobs that must run again, the reasons, and advice to bring results back."""

import dataclasses
import json
import re
from dataclasses import replace as replaced
from pathlib import Path

import pytest
from support.small_jobs import job, make, state

from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.lineage.job import Job, Keeper
from rtm.lineage.receipts import Ledger, State

pytestmark = pytest.mark.usefixtures("package")


def test_a_finished_job_is_fresh_until_a_part_changes() -> None:
    assert state(job("train", lr=1)) is State.STALE
    make(job("train", lr=1))
    assert state(job("train", lr=1)) is State.FRESH
    assert state(job("train", lr=2)) is State.STALE
    assert Ledger().why(job("train", lr=2, new=None)) == ["lr: 1 -> 2"]


def test_what_takes_gpus_is_made_on_a_cluster() -> None:
    training = dataclasses.replace(job("train"), compute=Resources(gpus=4, cpus=1, mem_gb=1, hours=1))
    table = job("table", training)
    assert Ledger().advice(table) == "Make it with `snakemake --profile slurm -- out/table.txt`."
    make(training)
    assert Ledger().advice(table) == "Make it with `snakemake --cores all -- out/table.txt`."


def test_staleness_propagates() -> None:
    make(job("train", lr=1))
    make(job("evaluate", job("train", lr=1)))
    after = job("table", job("evaluate", job("train", lr=2)))
    assert state(after.inputs[0]) is State.STALE
    assert Ledger().why(after) == ["it was never made", "evaluate/x is stale"]


def test_absent_outputs_keep_those_after_fresh() -> None:
    train = job("train")
    make(train)
    make(job("evaluate", train))
    train.outputs[0].unlink()
    assert state(train) is State.ABSENT
    assert state(job("evaluate", train)) is State.FRESH


def test_changed_outputs_are_named() -> None:
    train = job("train")
    make(train)
    train.outputs[0].write_text("TEXT")
    assert state(train) is State.CHANGED
    with pytest.raises(UserError, match=r"out/train\.txt is not the recorded one.*dvc checkout"):
        Ledger().verify(train)
    with pytest.raises(UserError, match="evaluate/x needs train/x"):
        make(job("evaluate", train))


def test_a_touched_file_is_fresh() -> None:
    make(job("train"))
    Path("out/train.txt").touch()
    assert state(job("train")) is State.FRESH


def test_a_receipt_that_lies_is_found() -> None:
    made = job("train", lr=1)
    make(made)
    receipt = json.loads(made.receipt.read_text())
    receipt["parts"]["params"]["lr"] = 2
    made.receipt.write_text(json.dumps(receipt))
    assert state(job("train", lr=2)) is State.STALE
    assert "was edited" in Ledger().why(job("train", lr=2))[0]


@pytest.mark.parametrize(
    ("stage", "folder", "advice"),
    [
        ("fetch", "weights", "^Make it with `snakemake --cores all -- weights/x`"),
        ("reference", "features", "^Make it with `snakemake --cores all -- features/x`"),
        ("fetch", "data", "^Bring the recorded one back with `dvc checkout data/x`"),
    ],
)
def test_the_advice_is_what_works(stage: str, folder: str, advice: str) -> None:
    keeper: Keeper = "dvc" if folder == "data" else "nobody"
    made = replaced(job(stage), outputs=(Path(folder) / "x",), keeper=keeper)
    make(made)
    made.outputs[0].write_text("TEXT")
    ledger = Ledger()
    assert ledger.state(made) is State.CHANGED and re.match(advice, ledger.advice(made))


def test_temporary_jobs_count_as_parts_of_the_next() -> None:
    def evaluate(samples: int) -> Job:
        return job("evaluate", job("sample", job("train"), temporary=True, samples=samples), k=3)

    first = evaluate(10)
    for made in (*first.inputs[0].inputs, *first.inputs, first):
        make(made)
    (Path("samples") / "native.npy").unlink()
    (Path("samples") / "receipt.json").unlink()
    Path("samples").rmdir()
    assert state(first) is State.FRESH
    assert Ledger().why(evaluate(20)) == ["sample.samples: 10 -> 20"]


def test_reports_show_what_is_there_and_stay_stale() -> None:
    table = job("table", job("summary"))
    make(table)
    assert state(table) is State.STALE
