"""How long trainings will take, judged by finished ones of the same kind."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.files import write_json, write_text
from rtm.lineage.begun import run_folder
from rtm.lineage.freshness import Freshness
from rtm.pipeline.forecast import forecast
from rtm.stages.base import Job
from rtm.stages.graph import jobs

PLANNED = ["desk_mlp24/seed0", "desk_mlp24/seed1", "desk_rtm_h1/seed0"]


@pytest.fixture
def trainings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Job]:
    """The trainings of the desk by name, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return {job.name: job for job in jobs(load("desk", PARAMS)).values() if job.stage.name == "train"}


def finish(job: Job, seconds: float) -> None:
    """Finish a training: a receipt, and a curve from two slices."""
    write_json(job.receipt, {})
    write_text(job.outputs["curve"], f"step,seconds,loss\n1,0.5,\n2100,{seconds},0.4\n")


def sentence(trainings: dict[str, Job], names: Sequence[str], at_a_time: int = 1) -> str:
    return forecast([trainings[name] for name in names], trainings.values(), Freshness(), at_a_time)


def test_finished_trainings_with_other_mappers_say_how_long(trainings: dict[str, Job]) -> None:
    for name, seconds in (("desk_mlp8/seed0", 1200), ("desk_rtm/seed0", 3600), ("desk_rtm/seed1", 1800)):
        finish(trainings[name], seconds)
    finish(trainings["desk_stylegan2_ada_mlp/seed0"], 99999)  # another method, so not similar
    whole = sentence(trainings, PLANNED)
    assert whole.startswith("3 trainings to do, 90.0 min (as similar finished ones took); ")
    assert "45.0 min with 2 at a time" in sentence(trainings, PLANNED, 2)
    assert "30.0 min with 8 at a time" in sentence(trainings, PLANNED, 8)  # a training is not divided
    assert "at a time" not in sentence(trainings, PLANNED[:1], 2)


def test_what_is_done_of_a_training_is_left_out(trainings: dict[str, Job]) -> None:
    finish(trainings["desk_mlp8/seed0"], 1000)
    job = trainings[PLANNED[0]]
    folder = run_folder(job, Freshness().parts(job))
    write_text(folder / "log.jsonl", json.dumps({"step": 1575, "seconds": 4000.0}) + "\n")
    expected = "1 training to do, 4.2 min (as similar finished ones took); "
    assert sentence(trainings, PLANNED[:1]).startswith(expected)


def test_without_finished_ones_the_limit_is_given(trainings: dict[str, Job]) -> None:
    assert sentence(trainings, PLANNED).startswith("3 trainings to do, at most 3.0 h (by params/); ")
    finish(trainings["desk_mlp8/seed0"], 1200)
    mixed = sentence(trainings, [*PLANNED, "desk_stylegan2_ada_mlp/seed0"])
    assert "60.0 min (as similar finished ones took), 1 of them at most 60.0 min (by params/); " in mixed


def test_a_damaged_curve_is_no_error(trainings: dict[str, Job]) -> None:
    finish(trainings["desk_mlp8/seed0"], 1200)
    write_text(trainings["desk_mlp8/seed0"].outputs["curve"], "step,seconds\n1,x\n")
    assert "by params/" in sentence(trainings, PLANNED)
