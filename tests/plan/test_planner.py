"""Plans: costs are counted once and kept, and impossible requests are refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import PARAMS
from support.plans import CONFIG, cost, without_rehearsals

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.plan import planner
from rtm.plan.planner import Planner
from rtm.stages.graph import every_job, jobs


@pytest.fixture
def rehearsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    return without_rehearsals(monkeypatch, tmp_path)


def test_equal_costs_are_counted_once_and_kept(rehearsed: list[str]) -> None:
    names = ["obama_imle_mlp", "panda_imle_mlp", "obama_imle_rtm"]  # the first two have 100 images each
    assert len(Planner(CONFIG).plans(names)) == 3
    assert len(rehearsed) == 2
    assert "obama_imle_rtm" in rehearsed
    Planner(CONFIG, gpu="a100").plans(names)  # another device needs no new count ...
    assert len(rehearsed) == 2
    Planner(CONFIG, gpus=2).plans(names[:1])  # ... but another number of GPUs does
    assert len(rehearsed) == 3


def test_what_was_counted_before_is_known(rehearsed: list[str]) -> None:
    assert Planner(CONFIG).counted("obama_imle_mlp") is None
    Planner(CONFIG).plans(["obama_imle_mlp"])
    plan = Planner(CONFIG).counted("obama_imle_mlp")
    assert plan
    assert plan.cost == cost()
    (file,) = planner.FOLDER.glob("*.json")
    for damaged in ("{", "{}"):
        file.write_text(damaged, "utf-8")
        assert Planner(CONFIG).counted("obama_imle_mlp") is None


@pytest.mark.parametrize(
    ("gpu", "gpus", "name", "message"),
    [
        (None, None, "nobody", "no experiment named 'nobody'"),
        ("k80", None, "obama_imle_mlp", "no device named 'k80'"),
        (None, 3, "cifar10_imle_mlp", "3 GPUs cannot share"),
    ],
)
def test_unknown_names_and_odd_groups_are_refused(
    gpu: str | None, gpus: int | None, name: str, message: str, rehearsed: list[str]
) -> None:
    with pytest.raises(UserError, match=message):
        Planner(CONFIG, gpu, gpus).plans([name])


def test_a_cost_that_cannot_be_counted_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such operator\nmore lines")

    monkeypatch.setattr("rtm.plan.rehearsal.count_cost", fail)
    with pytest.raises(UserError, match=r"^The cost of obama_imle_mlp cannot be counted .*: no such operator$"):
        planner._cost(CONFIG.experiments["obama_imle_mlp"], 1)


def test_what_is_only_planned_has_no_job() -> None:
    assert CONFIG.planned
    assert not CONFIG.planned.keys() & CONFIG.experiments.keys()
    names = {job.names.get("experiment") for job in every_job(PARAMS).values()}
    assert not CONFIG.planned.keys() & names
    with_them: Config = replace(CONFIG, experiments={**CONFIG.experiments, **CONFIG.planned})
    assert {job.names.get("experiment") for job in jobs(with_them).values()} >= CONFIG.planned.keys()
