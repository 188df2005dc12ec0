"""Frozen networks: which there are, and who reads them."""

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.stages.base import Recording
from rtm.stages.evaluate import Evaluate
from rtm.stages.network import Network, networks_of, weights_of

DEMO = load("demo", PARAMS)


def test_there_is_a_job_of_each_network() -> None:
    names = {str(names["network"]) for names in Network().every(DEMO)}
    assert names == {"inception", "vgg16", "dinov2", "digit_classifier"}


def test_a_perceptual_space_may_have_another_name() -> None:
    assert Network().of(DEMO, "lpips") is Network().of(DEMO, "vgg16")
    assert Network().of(DEMO, "vgg16").first.as_posix() == "weights/vgg16.safetensors"


def test_only_the_classifier_is_trained_here() -> None:
    classifier = Network().of(DEMO, "digit_classifier")
    fetched = Network().of(DEMO, "inception")
    assert [before.id for before in classifier.inputs] == ["dataset/digits"]
    assert fetched.inputs == ()
    assert (classifier.code[1:], fetched.code[1:]) == (("rtm.metrics.digits",), ("rtm.data.networks",))


def test_the_classifier_has_no_source(tmp_path: object) -> None:
    job = Network().of(DEMO, "digit_classifier")
    with pytest.raises(UserError, match="digit_classifier is trained here on the digits; leave --source out"):
        job.stage.make(job, Recording("", {}), source=tmp_path)


def test_the_weights_that_a_job_reads_have_the_names_of_their_networks() -> None:
    job = Evaluate().job(load("paper", PARAMS), experiment="cifar10_imle_rtm", protocol="paper", seed=0)
    wanted = {str(each.names["network"]) for each in networks_of(job.config, "paper")}
    assert weights_of(job).keys() == wanted
    assert all(path.stem == name for name, path in weights_of(job).items())
