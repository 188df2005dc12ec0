"""The cost of an image is timed alone, on the first seed's weights."""

from support import PARAMS

from rtm.config import load
from rtm.stages.latency import Latency

JOB = Latency().job(load("demo", PARAMS), experiment="digits_rtm")


def test_it_reads_the_first_seed() -> None:
    assert [before.id for before in JOB.inputs] == ["demo/train/digits_rtm/seed0"]


def test_it_depends_on_how_it_is_timed() -> None:
    evaluation = JOB.experiment.recipe.evaluation
    assert JOB.values["batch"] == evaluation.latency_batch
    assert JOB.values["passes"] == [evaluation.latency_warmup, evaluation.latency_passes]
    assert list(JOB.values["variants"]) == list(JOB.experiment.depths)


def test_nothing_runs_beside_it() -> None:
    assert JOB.stage.alone
    assert not JOB.stage.local
