"""The stages of DVC follow from the jobs: what each records, by which files, and what it reads."""

from pathlib import Path

import pytest
from support import ROOT

from rtm.config import load
from rtm.pipeline.dvc_stages import DvcStage, ScaleStages, stage_name


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def of(scale: str) -> dict[str, DvcStage]:
    """The stages of a scale, whose images no other scale has."""
    return {stage.name: stage for stage in ScaleStages(load(scale), set()).stages()}


def test_every_result_that_is_kept_has_one_stage() -> None:
    """The whole demo is in DVC: each file of a job, or its folder, is an output of one stage."""
    stages = of("demo")
    outs = [Path(path) for stage in stages.values() for made in stage.outs.values() for path in made]
    assert len(set(outs)) == len(outs)
    for path in outs:
        assert not {*path.parents} & {*outs}  # DVC forbids an output in an output
    recorded = [job for stage in stages.values() for job in stage.jobs if job.keeper != "nobody"]
    for job in recorded:
        for path in (*job.outputs.values(), job.receipt):
            assert path in outs or path.parent in outs


def test_an_experiment_is_one_stage() -> None:
    stage = of("demo")["digits_rtm"]
    assert {job.stage.name for job in stage.jobs} == {"train", "evaluate", "latency", "summary"}
    weights = [f"demo/checkpoints/digits_rtm/seed{seed}.safetensors" for seed in range(3)]
    assert stage.targets == [*weights, "demo/results/digits_rtm/metrics.json"]
    assert list(stage.outs["metrics"]) == ["demo/results/digits_rtm/metrics.json"]
    assert stage.outs["plots"] == {"demo/results/digits_rtm/training": {"persist": True, "x": "step", "y": "loss"}}
    assert stage.keys["mappers"] == ["digits_rtm"]
    assert stage.keys["protocols"] == ["digits"]
    assert stage.makes([Path("demo/results/digits_rtm/metrics.json")])
    assert not stage.makes([Path("demo/results/digits_mlp8/metrics.json")])


def test_the_code_of_a_stage_is_that_of_its_jobs() -> None:
    desk = of("desk")
    assert desk["desk_rtm"].code == desk["desk_mlp8"].code
    assert desk["desk_rtm"].code != desk["desk_stylegan2_ada_rtm"].code


def test_images_come_before_experiments() -> None:
    stages = of("demo")
    assert next(iter(stages)) == "demo_images"
    receipt = stages["digits_rtm"].deps[0]
    assert stages["demo_images"].makes([receipt])
    assert "weights" not in str(stages["demo_images"].outs)  # nobody keeps them


def test_a_table_reads_summaries() -> None:
    stage = of("demo")["tab_digits"]
    assert Path("demo/results/digits_rtm/metrics.json") in stage.deps
    assert stage.keys["tables"] == ["tab_digits"]
    assert stage.targets == ["demo/reports/tab_digits.tex"]


def test_figures_are_one_stage_with_their_galleries() -> None:
    stage = of("demo")["demo_figures"]
    assert {job.stage.name for job in stage.jobs} == {"figure", "gallery"}
    assert {"demo/reports/figures", "demo/galleries/digits_rtm"} <= stage.outs["outs"].keys()
    assert {job.stage.name for job in of("desk")["desk_figures"].jobs} == {"figure"}


def test_the_whole_scale_is_a_stage() -> None:
    stages = of("demo")
    assert stages["demo"].targets == ["demo"]
    assert {Path("demo/reports/tab_digits.tex"), Path("demo/reports/figures")} <= set(stages["demo"].deps)
    assert not any(stages["demo"].outs.values())


def test_a_trial_has_a_name_without_slashes() -> None:
    assert (stage_name("try/cats"), stage_name("desk"), stage_name("")) == ("try-cats", "desk", "")
