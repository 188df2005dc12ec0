"""What a training reads, by its method, and the options of its verb."""

import pytest
from support import PARAMS

from rtm.config import load
from rtm.lineage.code import present
from rtm.stages.base import Job
from rtm.stages.network import weights_of
from rtm.stages.train import Train, perceptual_weights, selection_protocol


def training(experiment: str, scale: str = "paper") -> Job:
    return Train().job(load(scale, PARAMS), experiment=experiment, seed=0)


@pytest.mark.parametrize(
    ("experiment", "inputs"),
    [
        ("cifar10_imle_rtm", ["dataset/cifar10", "network/vgg16"]),
        ("celebahq_imle_rtm", ["dataset/celebahq", "network/vgg16"]),
        (
            "cifar10_stylegan2_rtm",
            ["dataset/cifar10", "reference/cifar10/studiogan", "network/inception"],
        ),
    ],
)
def test_a_training_reads_what_its_method_needs(experiment: str, inputs: list[str]) -> None:
    job = training(experiment)
    ids = [before.id for before in job.inputs]
    assert ids[: len(inputs)] == inputs


def test_a_training_reaches_the_code_of_its_method_alone() -> None:
    imle = set(present().reached(training("cifar10_imle_rtm").code))
    gan = set(present().reached(training("cifar10_stylegan2_rtm").code))
    assert {"rtm.models.mappers", "rtm.training.loop"} <= imle & gan
    assert "rtm.methods.imle.method" in imle - gan
    assert "rtm.methods.stylegan2.losses" in gan - imle
    assert {"rtm.metrics.evaluate", "rtm.metrics.fid", "rtm.training.monitor"} <= gan - imle  # it selects by FID
    assert "rtm.training.launch" not in imle | gan


def test_what_changes_no_weight_is_no_value() -> None:
    values = training("cifar10_imle_rtm").values
    assert values["seed"] == 0
    assert values["steps"] == training("cifar10_imle_rtm").experiment.steps()
    assert "lr" in values["training"]
    assert not {"save_every", "grid_every", "loggers"} & values["training"].keys()
    assert "selection" not in values


def test_only_what_selects_weights_has_a_protocol() -> None:
    job = training("cifar10_stylegan2_rtm")
    assert selection_protocol(job.experiment) == "studiogan"
    assert job.values["selection"]["extractor"] == "inception"
    assert selection_protocol(training("cifar10_imle_rtm").experiment) is None


def test_the_perceptual_loss_has_its_network() -> None:
    job = training("cifar10_imle_rtm")
    weights = perceptual_weights(job.experiment, weights_of(job))
    assert weights is not None
    assert weights.name == "vgg16.safetensors"
    assert perceptual_weights(training("cifar10_stylegan2_rtm").experiment, {}) is None


def test_other_parameters_are_another_training() -> None:
    demo = training("digits_rtm", "demo")
    assert demo.values != training("digits_mlp8", "demo").values
    assert demo.cost == demo.experiment.recipe.resources
