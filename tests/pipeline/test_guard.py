"""The guard against retraining counts finished trainings that would run again, and stops above a limit."""

from pathlib import Path
from typing import Any

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.lineage.freshness import Freshness
from rtm.pipeline.guard import Guard
from rtm.stages.base import Job
from rtm.stages.graph import jobs

NAME = "demo/train/digits_rtm/seed0"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Job]:
    """The demo, where two seeds are finished with another value, at five GPU-hours each."""
    graph = jobs(load("demo", PARAMS))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RTM_REDO", raising=False)
    for seed in (0, 1):
        job = graph[f"demo/train/digits_rtm/seed{seed}"]
        parts = {**Freshness().parts(job), "params": {**job.values, "tf32": "another"}}
        made = {"gpu_hours": 5.0}
        write_json(job.receipt, {"fingerprint": "", "parts": parts, "outputs": {}, "made": made})
    return graph


def ask(graph: dict[str, Job], *names: str, **site: Any) -> None:
    guard = Guard(graph, Freshness(), site)
    for name in names:
        guard.refuse_costly(graph[name])


def test_it_names_what_would_run_again_and_the_ways_out(graph: dict[str, Job]) -> None:
    with pytest.raises(UserError) as refused:
        ask(graph, NAME)
    text = str(refused.value)
    assert text.startswith("2 finished trainings (10.0 GPU-hours) would run again:")
    assert f"  {NAME}: 5.0 hours, " in text
    assert f"rtm lineage accept {NAME}" in text
    assert f"--config redo={NAME}" in text


@pytest.mark.parametrize(
    ("redo", "is_allowed"),
    [
        ("demo/train/digits_rtm", True),
        (f"{NAME},demo/train/digits_rtm/seed1/", True),
        (NAME, False),
        ("demo/train/digits_r", False),  # no part of a name
        ("10", True),
        ("9.9", False),
    ],
)
def test_names_or_hours_allow_it(graph: dict[str, Job], redo: str, is_allowed: bool) -> None:
    names = [NAME, "demo/train/digits_rtm/seed1"]
    if is_allowed:
        ask(graph, *names, redo=redo)
        return
    with pytest.raises(UserError, match="would run again"):
        ask(graph, *names, redo=redo)


def test_it_can_be_allowed_for_dvc_too(graph: dict[str, Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTM_REDO", NAME)
    ask(graph, NAME)


def test_first_trainings_and_other_stages_run_unasked(
    graph: dict[str, Job], capsys: pytest.CaptureFixture[str]
) -> None:
    ask(graph, "demo/train/digits_rtm/seed2", "demo/summary/digits_rtm")
    assert capsys.readouterr().err == ""


def test_weights_without_a_receipt_are_told(graph: dict[str, Job], capsys: pytest.CaptureFixture[str]) -> None:
    job = graph["demo/train/digits_rtm/seed2"]
    job.first.parent.mkdir(parents=True)
    job.first.touch()
    ask(graph, job.id)
    assert f"{job.id} will be trained again: it has no receipt" in capsys.readouterr().err
