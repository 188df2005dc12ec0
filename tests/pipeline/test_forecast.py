"""The time that a plan expects for its trainings."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.files import write_json, write_text
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import run_folder
from rtm.pipeline.forecast import forecast
from rtm.pipeline.graph import jobs

PLANNED = ["train/desk_mlp24/seed0", "train/desk_mlp24/seed1", "train/desk_rtm_h1/seed0"]


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Job]:
    monkeypatch.chdir(tmp_path)
    return jobs(load("desk", PARAMS))


def finish(job: Job, seconds: float) -> None:
    """Finish a training: a receipt, and a curve from two slices."""
    write_json(job.receipt, {})
    write_text(job.volatile[0], f"step,seconds,loss\n1,0.5,\n2100,{seconds},0.4\n")


def said(graph: dict[str, Job], names: Sequence[str], at_a_time: int = 1) -> str:
    return forecast([graph[name] for name in names], graph.values(), Ledger(), at_a_time)


def test_finished_trainings_with_other_mappers_say_how_long(graph: dict[str, Job]) -> None:
    for name, seconds in (("desk_mlp8/seed0", 1200), ("desk_rtm/seed0", 3600), ("desk_rtm/seed1", 1800)):
        finish(graph[f"train/{name}"], seconds)
    finish(graph["train/desk_stylegan2_ada_mlp/seed0"], 99999)  # another method, so not similar
    assert said(graph, PLANNED).startswith("3 trainings to do, 90.0 min (as similar finished ones took); ")
    assert "45.0 min with 2 at a time" in said(graph, PLANNED, 2)
    assert "30.0 min with 8 at a time" in said(graph, PLANNED, 8)  # a training is not divided
    assert "at a time" not in said(graph, PLANNED[:1], 2)


def test_what_is_done_of_a_training_is_left_out(graph: dict[str, Job]) -> None:
    finish(graph["train/desk_mlp8/seed0"], 1000)
    log = run_folder(Ledger(), graph[PLANNED[0]]) / "log.jsonl"
    write_text(log, json.dumps({"step": 1575, "seconds": 4000.0}) + "\n")
    assert said(graph, PLANNED[:1]).startswith("1 training to do, 4.2 min (as similar finished ones took); ")


def test_without_finished_ones_the_limit_is_given(graph: dict[str, Job]) -> None:
    assert said(graph, PLANNED).startswith("3 trainings to do, at most 3.0 h (by params/); ")
    finish(graph["train/desk_mlp8/seed0"], 1200)
    mixed = said(graph, [*PLANNED, "train/desk_stylegan2_ada_mlp/seed0"])
    assert "60.0 min (as similar finished ones took), 1 of them at most 60.0 min (by params/); " in mixed


def test_a_damaged_curve_is_no_error(graph: dict[str, Job]) -> None:
    finish(graph["train/desk_mlp8/seed0"], 1200)
    write_text(graph["train/desk_mlp8/seed0"].volatile[0], "step,seconds\n1,x\n")
    assert "by params/" in said(graph, PLANNED)
