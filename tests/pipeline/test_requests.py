"""What jobs ask for at a site."""

from typing import Any

import pytest
from support import PARAMS

from rtm.config import load
from rtm.pipeline import site
from rtm.pipeline.requests import Requests
from rtm.pipeline.site import Node
from rtm.pipeline.slurm import Queued, comment
from rtm.stages.base import Job
from rtm.stages.evaluate import Evaluate
from rtm.stages.train import Train

PAPER = load("paper", PARAMS)


def training(experiment: str = "cifar10_imle_rtm") -> Job:
    return Train().job(PAPER, experiment=experiment, seed=0)


def evaluation() -> Job:
    return Evaluate().job(PAPER, experiment="cifar10_imle_rtm", protocol="paper", seed=0)


@pytest.mark.parametrize(
    ("given", "gpus", "hours", "option"),
    [({}, 4, 140, ""), ({"gpus": "2"}, 2, 280, "--gpus 2"), ({"gpus": 8}, 4, 140, "")],
)
def test_a_training_may_use_fewer_gpus_for_longer(given: dict[str, Any], gpus: int, hours: int, option: str) -> None:
    requests = Requests(given)
    job = training()
    assert (requests.of(job).gpus, requests.minutes(job), requests.limit(job)) == (gpus, 60 * hours, option)
    assert requests.of(evaluation()) == evaluation().cost


def test_no_job_asks_for_more_than_the_walltime() -> None:
    requests = Requests({"walltime": "1440"})
    assert requests.minutes(training()) == 1440
    assert requests.minutes(evaluation()) == 60 * evaluation().cost.hours


def test_a_site_may_name_its_gpus() -> None:
    assert Requests({}).model(training()) == "h100"
    assert Requests({"gpu_model": "nvidia_h100"}).model(training()) == "nvidia_h100"
    table = Train().job(load("demo", PARAMS), experiment="digits_rtm", seed=0)
    assert Requests({"gpu_model": "nvidia_h100"}).model(table) == ""


@pytest.mark.parametrize(("failures", "memory"), [(0, 128_000), (1, 256_000), (2, 500_000)])
def test_memory_grows_up_to_the_largest_node(monkeypatch: pytest.MonkeyPatch, failures: int, memory: int) -> None:
    monkeypatch.setattr(site, "nodes", lambda model: [Node(4, 16, 500_000), Node(0, 128, 1_024_000)])
    assert Requests({}).memory(training(), failures) == memory


def test_a_training_gets_a_signal_before_its_walltime() -> None:
    assert Requests({"walltime": 1440}).options(training(), []) == "--signal=URG@600 --open-mode=append"
    assert Requests({"walltime": 20}).options(training(), []).startswith("--signal=URG@300 ")
    assert Requests({"stop_before": 3}).options(training(), []).startswith("--signal=URG@180 ")
    assert Requests({}).options(evaluation(), []) == ""


def test_a_job_waits_for_its_earlier_copies() -> None:
    queue = [
        Queued(number, "RUNNING", comment(job), "", "", "None")
        for number, job in (("7", evaluation()), ("8", training()), ("9", evaluation()))
    ]
    assert Requests({}).options(evaluation(), queue) == "--dependency=afterany:7:9"
