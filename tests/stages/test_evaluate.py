"""What a measurement reads, and what it leaves alone."""

from support import PARAMS

from rtm.config import load
from rtm.lineage.code import present
from rtm.stages.base import Job
from rtm.stages.evaluate import Evaluate


def evaluation(experiment: str, scale: str = "demo", protocol: str = "digits") -> Job:
    return Evaluate().job(load(scale, PARAMS), experiment=experiment, protocol=protocol, seed=1)


def test_a_measurement_reads_its_checkpoint_its_reference_and_its_networks() -> None:
    ids = [before.id for before in evaluation("digits_rtm").inputs]
    assert ids == ["demo/train/digits_rtm/seed1", "reference/digits300/digits", "network/digit_classifier"]


def test_every_depth_is_drawn() -> None:
    job = evaluation("digits_rtm")
    assert list(job.values["variants"]) == list(job.experiment.depths)
    assert len(job.values["variants"]) > 1
    assert len(evaluation("digits_mlp8").values["variants"]) == 1


def test_a_measurement_knows_nothing_of_trainings() -> None:
    reached = set(present().reached(evaluation("digits_rtm").code))
    assert "rtm.training.loop" not in reached
    assert not any(name.startswith("rtm.methods") for name in reached)
    assert {"rtm.metrics.digits", "rtm.models.mappers"} <= reached


def test_a_gan_reaches_its_own_generator() -> None:
    plain = set(present().reached(evaluation("cifar10_imle_rtm", "paper", "paper").code))
    gan = set(present().reached(evaluation("cifar10_stylegan2_rtm", "paper", "paper").code))
    assert "rtm.models.stylegan2.generator" in gan - plain


def test_it_takes_one_gpu_of_its_training() -> None:
    job = evaluation("cifar10_imle_rtm", "paper", "paper")
    assert (job.cost.gpus, job.experiment.recipe.resources.gpus > 0) == (1, True)
    assert evaluation("digits_rtm").cost.gpus == 0
