"""Plans: rehearsals are made once and kept, and impossible requests are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import PARAMS
from support.plans import CONFIG, rehearsal, without_rehearsals

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.pipeline.graph import every_job, jobs
from rtm.plan import plan as planning
from rtm.plan.plan import Planner, cached
from rtm.plan.tally import GIB


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The list of experiments that were rehearsed. Here every rehearsal is the same constant."""
    return without_rehearsals(monkeypatch, tmp_path)


def test_equal_costs_are_rehearsed_once_and_kept(calls: list[str]) -> None:
    names = ["obama_imle_mlp", "panda_imle_mlp", "obama_imle_rtm"]  # the first two have 100 images each
    assert len(Planner(CONFIG).plans(names)) == 3
    assert calls == ["panda_imle_mlp", "obama_imle_rtm"] or calls == ["obama_imle_mlp", "obama_imle_rtm"]
    assert len(Planner(CONFIG).plans(names)) == 3 and len(calls) == 2
    Planner(CONFIG, gpu="a100").plans(names)  # another device needs no new rehearsal ...
    assert len(calls) == 2
    Planner(CONFIG, gpus=2).plans(names[:1])  # ... but another number of GPUs does
    assert len(calls) == 3


def test_what_was_planned_before_is_found(calls: list[str]) -> None:
    assert cached(CONFIG, "obama_imle_mlp") is None
    Planner(CONFIG).plans(["obama_imle_mlp"])
    found = cached(CONFIG, "obama_imle_mlp")
    assert found and found.peak == 2 * GIB and found.rehearsal == rehearsal()
    (kept,) = planning.KEPT.glob("*.json")
    kept.write_text("{")
    assert cached(CONFIG, "obama_imle_mlp") is None  # a damaged file is made again


def test_unknown_names_and_odd_groups_are_refused(calls: list[str]) -> None:
    with pytest.raises(UserError, match="no experiment named 'nobody'"):
        Planner(CONFIG).plans(["nobody"])
    with pytest.raises(UserError, match="no device named 'k80'"):
        Planner(CONFIG, gpu="k80").plans(["obama_imle_mlp"])
    with pytest.raises(UserError, match="3 GPUs cannot share"):
        Planner(CONFIG, gpus=3).plans(["cifar10_imle_mlp"])


def test_what_is_only_planned_has_no_job() -> None:
    assert CONFIG.planned and not CONFIG.planned.keys() & CONFIG.experiments.keys()
    made = {job.subject.experiment for job in every_job(PARAMS).values()}
    assert not CONFIG.planned.keys() & made
    with_them: Config = replace(CONFIG, experiments={**CONFIG.experiments, **CONFIG.planned})
    assert {job.subject.experiment for job in jobs(with_them).values()} >= CONFIG.planned.keys()
