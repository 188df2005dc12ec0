"""Features of real images depend on what computes them, and not on how they are compared."""

from support import PARAMS

from rtm.config import load
from rtm.stages.reference import Reference

PAPER = load("paper", PARAMS)
JOB = Reference().job(PAPER, dataset="cifar10", protocol="paper")


def test_it_reads_images_and_networks() -> None:
    kinds = [before.stage.name for before in JOB.inputs]
    assert kinds[0] == "dataset"
    assert set(kinds[1:]) == {"network"}


def test_values_of_the_comparison_do_not_count() -> None:
    protocol = PAPER.params.protocols["paper"]
    assert JOB.values["extractor"] == protocol.extractor
    assert not {"k", "samples", "title"} & JOB.values.keys()


def test_only_those_that_another_job_reads_are_made() -> None:
    assert list(Reference().every(PAPER)) == []


def test_a_gpu_is_for_large_networks_where_there_are_gpus() -> None:
    assert JOB.cost.gpus == 1
    assert Reference().job(load("smoke", PARAMS), dataset="cifar10", protocol="paper").cost.gpus == 0
    assert Reference().job(load("demo", PARAMS), dataset="digits300", protocol="digits").cost.gpus == 0
