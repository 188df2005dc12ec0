"""Plans: the arithmetic of the roofline, what is shared and kept, and what is said."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS

from rtm.cli import plan as plan_cli
from rtm.config import Config, Experiment, load
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.pipeline.graph import every_job, jobs
from rtm.plan import plan as planning
from rtm.plan.driver import preloaded
from rtm.plan.estimate import Plan, seconds, times
from rtm.plan.plan import Planner, cached
from rtm.plan.tally import GIB, Rehearsal, Tally, chunk_count, round_count

CONFIG = load("paper", PARAMS)
H100 = CONFIG.params.devices["h100"]


def tally(**counts: Any) -> Tally:
    return Tally(kernels=Counter({("bfloat16", 6e12, 10**9): 2, ("", 0.0, 10**6): 3}), peak=2 * GIB, **counts)


def rehearsal(peak: int = 2 * GIB) -> Rehearsal:
    parts = {name: tally() for name in ("step", "decode", "features", "search", "begin", "data")}
    holds = {"parameters": GIB // 4, "EMA": GIB // 4, "optimizer": GIB // 2, "features": GIB // 8}
    return Rehearsal(4, {"step": 1.0}, 10, parts, holds, {"step": peak, "round": GIB}, GIB // 16)


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


def test_the_longest_of_arithmetic_traffic_and_launch_counts() -> None:
    large, small = 6e12 / (0.6 * 989e12), 2e-6  # 1 GB takes 0.4 ms, less than the product; 1 MB takes less than 2 us
    assert seconds(tally(), H100, 1) == pytest.approx(2 * large + 3 * small)
    host_bound = Tally(kernels=Counter({("", 0.0, 512): 1000}))
    assert seconds(host_bound, H100, 1) == pytest.approx(1000 * 5e-6)
    sent = Tally(copied=55 * 10**9, exchanged=450 * 10**9)
    assert seconds(sent, H100, 8) == pytest.approx(1 + 1)
    assert seconds(sent, H100, 16) == pytest.approx(1 + 9)  # over the network


def test_a_run_is_steps_and_rounds() -> None:
    experiment = CONFIG.experiments["cifar10_imle_rtm"]
    assert round_count(experiment) == 3000 and chunk_count(experiment, 4) == math.ceil(500000 / 256 / 4)
    assert times(experiment, rehearsal()) == {
        "step": 6000 * 50000 / 256, "decode": 30000, "features": 30000, "search": 30000, "begin": 3000, "data": 1,
    }  # fmt: skip
    plan = Plan(experiment, rehearsal(), H100)
    assert plan.hours == pytest.approx(seconds(tally(), H100, 4) * sum(times(experiment, rehearsal()).values()) / 3600)
    assert set(plan.hours_of) == {"step", "decoding", "features", "search"}
    assert plan.gpu_hours == 4 * plan.hours
    assert sum(plan.memory.values()) == plan.peak


def test_it_warns_of_memory_and_of_hours() -> None:
    experiment = CONFIG.experiments["cifar10_imle_rtm"]
    fits, too_large = (Plan(experiment, rehearsal(peak), H100) for peak in (GIB, 79 * GIB))
    assert not any("GiB" in warning for warning in fits.warnings)
    assert any("needs 80 GiB" in warning for warning in too_large.warnings)

    def asking(hours: float) -> list[str]:
        resources = experiment.recipe.resources.model_copy(update={"hours": hours})
        recipe = experiment.recipe.model_copy(update={"resources": resources})
        return Plan(replace(experiment, recipe=recipe), rehearsal(), H100).warnings

    planned = fits.hours
    assert not asking(1.9 * planned) and not asking(planned / 1.9)
    assert asking(2.1 * planned) and asking(planned / 2.1)


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


def test_a_folder_or_compiler_that_is_missing_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="see whether its folder can be written"), preloaded(tmp_path / "file"):
        pass
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs a C compiler"), preloaded(tmp_path):
        pass


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
