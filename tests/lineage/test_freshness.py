"""Freshness by content: the jobs that must run again, the reasons, and advice to bring results back."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.small_jobs import edit, job, make, state, training, why

from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.lineage.freshness import Freshness, State
from rtm.stages.base import Job

pytestmark = pytest.mark.usefixtures("package")


def test_a_finished_job_is_fresh_until_a_part_changes() -> None:
    assert state(job("train", lr=1)) is State.STALE
    make(job("train", lr=1))
    assert state(job("train", lr=1)) is State.FRESH
    assert state(job("train", lr=2)) is State.STALE
    assert why(job("train", lr=2, new=None)) == ["lr: 1 -> 2"]


@pytest.mark.parametrize(("old", "new"), [(True, 1), (1, 1.0), (0, False), (None, 0), ("1", 1), ([1], [1.0])])
def test_values_that_python_calls_equal_differ(old: Any, new: Any) -> None:
    make(job("train", value={"of": old}))
    for before, after in ((old, new), (new, old)):
        make(job("train", value={"of": before}))
        assert state(job("train", value={"of": after})) is State.STALE


def test_changed_values_are_named_by_place() -> None:
    make(job("train", recipe={"betas": [0.5, 0.9], "lr": 1}, blocks=[1, 2]))
    reasons = why(job("train", recipe={"betas": [0.5, 0.99], "lr": 1}, blocks=[1, 2, 3]))
    assert reasons == ["blocks: [1, 2] -> [1, 2, 3]", "recipe.betas[1]: 0.9 -> 0.99"]


def test_an_option_that_is_not_used_changes_nothing() -> None:
    make(job("train", lr=1))
    assert state(job("train", lr=1, new=None)) is State.FRESH


def test_code_counts(package: Path) -> None:
    make(job("train"))
    edit(package, "cli", "return 1", "return 2")
    assert state(job("train")) is State.FRESH
    edit(package, "third", "return 2", "return 3")
    assert state(job("train")) is State.STALE


def test_what_takes_gpus_is_made_on_a_cluster() -> None:
    before = job("train")
    before.__dict__["cost"] = Resources(gpus=4, cpus=1, mem_gb=1, hours=1)
    table = job("table", before)
    assert Freshness().advice(table) == "Make it with `snakemake --profile slurm -- out/table.txt`."
    make(before)
    assert Freshness().advice(table) == "Make it with `snakemake --cores all -- out/table.txt`."


def test_staleness_propagates() -> None:
    make(job("train", lr=1))
    make(job("evaluate", job("train", lr=1)))
    after = job("table", job("evaluate", job("train", lr=2)))
    assert state(after.inputs[0]) is State.STALE
    assert why(after) == ["it was never made", "evaluate/x is stale"]


def test_absent_outputs_keep_those_after_fresh() -> None:
    before = job("train")
    make(before)
    make(job("evaluate", before))
    before.first.unlink()
    assert state(before) is State.ABSENT
    assert why(before) == ["out/train.txt is not here"]
    assert state(job("evaluate", before)) is State.FRESH


def test_changed_outputs_are_named() -> None:
    before = job("train")
    make(before)
    before.first.write_text("TEXT", "utf-8")
    assert state(before) is State.CHANGED
    with pytest.raises(UserError, match=r"out/train\.txt is not the recorded one.*dvc checkout"):
        Freshness().verify([before])
    with pytest.raises(UserError, match="evaluate/x needs train/x"):
        make(job("evaluate", before))


def test_a_touched_file_is_fresh() -> None:
    make(job("train"))
    Path("out/train.txt").touch()
    assert state(job("train")) is State.FRESH


@pytest.mark.parametrize(
    ("keeper", "advice"),
    [
        ("nobody", "^Make it with `snakemake --cores all -- out/network.txt`"),
        ("dvc", "^Bring the recorded one back with `dvc checkout out/network.txt`"),
    ],
)
def test_the_advice_is_what_works(keeper: str, advice: str) -> None:
    made = job("network", keeper=keeper)
    make(made)
    made.first.write_text("TEXT", "utf-8")
    assert state(made) is State.CHANGED
    assert re.match(advice, Freshness().advice(made))
    made.first.unlink()
    absent = advice if keeper == "nobody" else "^Get it with `dvc pull out/network.txt`, or make it with `snakemake"
    assert re.match(absent, Freshness().advice(made))


def test_reports_show_what_is_there_and_stay_stale() -> None:
    before = job("summary")
    before.first.parent.mkdir()
    before.first.write_text("unsigned", "utf-8")
    table = job("table", before, shows=True)
    make(table)
    assert state(table) is State.STALE
    assert why(table) == ["summary/x is stale"]


def curves(before: Job) -> tuple[Job, Job]:
    """A job that reads the weights of a training, and one that reads its curve."""
    evaluation = job("evaluate", before)
    figure = job("figure", before, reads={"train": "curve"})
    return evaluation, figure


def test_only_what_draws_curves_depends_on_them() -> None:
    before = training()
    make(before)
    evaluation, figure = curves(before)
    make(evaluation)
    make(figure)
    receipt = json.loads(before.receipt.read_text("utf-8"))
    receipt["outputs"][str(before.outputs["curve"])]["md5"] = "0" * 32
    before.receipt.write_text(json.dumps(receipt), "utf-8")
    before.outputs["curve"].unlink()
    assert Freshness().identity(before, before.first) is not None
    assert (state(evaluation), state(figure)) == (State.FRESH, State.STALE)
    assert why(figure) == ["train/x/seed0 has a new result"]


def test_the_identity_of_what_was_never_made_is_unknown() -> None:
    assert Freshness().identity(job("train"), Path("out/train.txt")) is None
