"""Targets are found; the error for a misspelt target lists the nearest names."""

import pytest
from support import ROOT

from rtm.config.loading import PARAMS
from rtm.core.errors import UserError
from rtm.lineage.job import Job
from rtm.pipeline.graph import every_job
from rtm.pipeline.targets import check_targets, find


@pytest.fixture(scope="module")
def graph() -> dict[str, Job]:
    return every_job(ROOT / PARAMS)


def test_targets_are_found(graph: dict[str, Job]) -> None:
    assert [job.id for job in find(graph, "demo/reports/tab_digits.md")] == ["demo/table/tab_digits"]
    seeds = [job.id for job in find(graph, "demo/train/digits_rtm")]
    assert seeds == [f"demo/train/digits_rtm/seed{seed}" for seed in range(3)]
    with pytest.raises(UserError, match=r"choose one of reports/tab_cifar10\.tex"):
        find(graph, "reports/tab_cifar.tex")


def test_misspelt_arguments_are_refused(graph: dict[str, Job]) -> None:
    check_targets(graph, ["demo", "-n", "--report", "reports/page.html", "demo/reports/tab_digits.tex"])
    with pytest.raises(UserError, match=r"choose one of demo/reports/tab_digits\.tex"):
        check_targets(graph, ["demo/reports/tab_digit.tex"])
    with pytest.raises(UserError, match="checkpoints/cifar10_imle_rtm/seed0"):
        check_targets(graph, ["checkpoints/cifar10_imle_rtn/seed0.safetensors"])
