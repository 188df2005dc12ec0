"""The graph of jobs: what scales share, the values that each job reads, and the words that name jobs."""

from typing import Any

import pytest
import yaml
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.stages.base import Job
from rtm.stages.graph import check_seed, every_job, find, job_named, jobs, jobs_of


@pytest.mark.parametrize(
    ("place", "value", "stages"),
    [
        (("recipes", "digits_imle", "training", "lr"), 1.0e-3, {"train"}),
        (("recipes", "digits_imle", "training", "save_every"), 7, set()),
        (("recipes", "digits_imle", "resources", "hours"), 7, set()),
        (("recipes", "digits_imle", "evaluation", "batch"), 7, set()),
        (("recipes", "digits_imle", "evaluation", "latency_batch"), 7, {"latency"}),
        (("mappers", "digits_rtm", "H"), 9, {"train", "evaluate", "gallery", "latency", "figure"}),
        (("protocols", "digits", "k"), 7, {"evaluate"}),
        (("protocols", "digits", "title"), "Another", {"table", "figure"}),
        (("tables", "tab_digits", "caption"), "Another", {"table", "figure"}),
        (("figures", "fig_digits_samples", "caption"), "Another", {"figure", "report"}),
        (("datasets", "digits", "licence"), "Another", set()),
        (("datasets", "digits", "classes"), 9, {"dataset"}),  # trainings see a change of the images by their hash
    ],
)
def test_a_job_reads_what_it_uses(differing: Any, place: tuple[str, ...], value: Any, stages: set[str]) -> None:
    assert differing(*place, to=value) == stages


def test_every_file_has_one_job(graph: dict[str, Job]) -> None:
    for job in graph.values():
        for path in (*job.outputs.values(), job.receipt):
            assert find(graph, str(path)) == [job]


def test_what_a_job_reads_is_in_the_graph(graph: dict[str, Job]) -> None:
    for job in graph.values():
        for before in job.inputs:
            assert graph[before.id].id == before.id


def test_scales_share_data_alone(graph: dict[str, Job]) -> None:
    shared = {job.stage.name for job in jobs(load("demo")).values() if job.root == ""}
    assert shared == {"dataset", "network", "reference"}
    assert graph["smoke/dataset/digits"].values != graph["dataset/digits"].values


def test_a_scale_may_not_change_what_it_shares(tmp_path: Any) -> None:
    for file in PARAMS.glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text("utf-8"), "utf-8")
    scales = yaml.safe_load((PARAMS / "scales.yaml").read_text("utf-8"))
    scales["scales"]["demo"]["overrides"] = {"datasets": {"digits": {"count": 1800}}}
    (tmp_path / "scales.yaml").write_text(yaml.safe_dump(scales, sort_keys=False), "utf-8")
    with pytest.raises(UserError, match="demo changes dataset/digits"):
        every_job(tmp_path)


def test_a_job_is_one_object() -> None:
    """Many tables and figures ask for the same jobs; what a job computes once is known everywhere."""
    smoke = jobs(load("smoke"))
    for job in smoke.values():
        assert all(smoke[before.id] is before for before in job.inputs)


def test_targets_are_found(graph: dict[str, Job]) -> None:
    assert [job.id for job in find(graph, "demo/reports/tab_digits.md")] == ["demo/table/tab_digits"]
    assert [job.id for job in find(graph, "demo/lineage/table/tab_digits.json")] == ["demo/table/tab_digits"]
    seeds = [job.id for job in find(graph, "demo/train/digits_rtm")]
    assert seeds == [f"demo/train/digits_rtm/seed{seed}" for seed in range(3)]
    with pytest.raises(UserError, match=r"choose one of reports/tab_cifar10\.tex"):
        find(graph, "reports/tab_cifar.tex")


def test_several_targets_name_each_job_once() -> None:
    named = jobs_of(["demo/train/digits_rtm/seed0", "demo/train/digits_rtm", "reports/tab_cifar10.tex"])
    assert [job.id for job in named] == [
        "demo/train/digits_rtm/seed0",
        "demo/train/digits_rtm/seed1",
        "demo/train/digits_rtm/seed2",
        "table/tab_cifar10",
    ]
    with pytest.raises(UserError, match="Name a file or a job"):
        jobs_of([])


def test_every_job_is_found_by_its_name(graph: dict[str, Job]) -> None:
    for name in [*graph][::5]:
        assert job_named(name).id == name


def test_a_job_of_a_variant_is_found_by_its_name() -> None:
    job = job_named("variants/demo/train/digits_rtm+mapper.L=2/seed0")
    assert job.id == "variants/demo/train/digits_rtm+mapper.L=2/seed0"
    assert job.values["mapper"]["L"] == 2


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "demo/train/digits_rtm/seed7",
            "There is no job demo.train.digits_rtm.seed7; choose one of demo.train",
        ),
        ("reference/digits/papr", "There is no job reference/digits/papr; choose one of "),
        ("demo/trian/digits_rtm/seed0", "There is no job demo/trian/digits_rtm/seed0; choose one of demo/train"),
        ("nothing", "There is no job nothing"),
    ],
)
def test_a_name_without_a_job_is_answered(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        job_named(name)


def test_seeds_are_those_of_params() -> None:
    check_seed(load("demo"), "digits_rtm", 2)
    with pytest.raises(UserError, match="no seed 3"):
        check_seed(load("demo"), "digits_rtm", 3)
