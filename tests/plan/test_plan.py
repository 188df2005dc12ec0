"""Plans: what is rehearsed once and kept, what is refused, and how it is printed."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import PARAMS
from support.plans import CONFIG, rehearsal

from rtm.cli import plan as plan_cli
from rtm.config import Config, Experiment
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.pipeline.graph import every_job, jobs
from rtm.plan import plan as planning
from rtm.plan.plan import Planner, cached
from rtm.plan.tally import GIB, Rehearsal


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The experiments that were rehearsed; here a rehearsal is a constant."""
    called: list[str] = []

    def rehearsed(self: Planner, missing: dict[str, Experiment]) -> dict[str, Rehearsal]:
        called.extend(experiment.name for experiment in missing.values())
        found = {
            key: rehearsal() if each.recipe.imle else replace(rehearsal(), chunks=0) for key, each in missing.items()
        }
        for key, each in found.items():
            write_json(planning._file(key), each.to_json())
        return found

    monkeypatch.setattr(Planner, "_rehearsed", rehearsed)
    monkeypatch.setattr(planning, "KEPT", tmp_path)
    return called


def test_equal_costs_are_rehearsed_once_and_kept(calls: list[str]) -> None:
    names = ["obama_imle_mlp", "panda_imle_mlp", "obama_imle_rtm"]  # the first two: 100 images each
    assert len(Planner(CONFIG).plans(names)) == 3
    assert calls == ["panda_imle_mlp", "obama_imle_rtm"] or calls == ["obama_imle_mlp", "obama_imle_rtm"]
    assert len(Planner(CONFIG).plans(names)) == 3 and len(calls) == 2
    Planner(CONFIG, gpu="a100").plans(names)  # another device needs no other rehearsal ...
    assert len(calls) == 2
    Planner(CONFIG, gpus=2).plans(names[:1])  # ... another group does
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


@pytest.mark.parametrize("name", [None, "tab_cifar10", "cifar10_imle_rtm"])
def test_it_is_printed_in_80_columns(
    name: str | None, calls: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    plan_cli.show(CONFIG, name, None, None)
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80 and "cifar10_imle_rtm" in printed
    if name != "cifar10_imle_rtm":
        assert "GPU-hours of all" in printed


def test_what_is_only_planned_has_no_job() -> None:
    assert CONFIG.planned and not CONFIG.planned.keys() & CONFIG.experiments.keys()
    made = {job.subject.experiment for job in every_job(PARAMS).values()}
    assert not CONFIG.planned.keys() & made
    with_them: Config = replace(CONFIG, experiments={**CONFIG.experiments, **CONFIG.planned})
    assert {job.subject.experiment for job in jobs(with_them).values()} >= CONFIG.planned.keys()
