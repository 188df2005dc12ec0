"""Values, code and costs that several stages share."""

from pathlib import Path

import pytest
from support import PARAMS, own_classes

from rtm.config import load
from rtm.stages import values

PAPER = load("paper", PARAMS)


def test_the_generator_is_described_by_its_parts() -> None:
    described = values.architecture(PAPER.experiments["cifar10_imle_rtm"])
    assert described.keys() == {"dim", "mapper", "decoder", "stylegan2", "tf32"}
    assert described["stylegan2"] is None
    assert values.architecture(PAPER.experiments["cifar10_stylegan2_rtm"])["decoder"] is None


def test_the_code_of_a_generator_is_that_of_its_mapper() -> None:
    mlp = values.generator_code(PAPER.experiments["cifar10_imle_mlp"])
    gan = values.generator_code(PAPER.experiments["cifar10_stylegan2_rtm"])
    assert {"rtm.models.mappers:MLPMapper", "rtm.models.generator:build_generator"} <= set(mlp)
    assert {"rtm.models.mappers:RTM", "rtm.models.stylegan2.generator:build_generator"} <= set(gan)


def test_a_protocol_has_the_number_of_images_of_the_dataset() -> None:
    protocol = PAPER.params.protocols["paper"]
    described = values.protocol(PAPER, "paper", "cifar10")
    assert described["samples"] == protocol.required("cifar10")
    assert "title" not in described


def test_a_class_of_ones_own_counts_by_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = own_classes.install(tmp_path, "my_mappers", "class Mine:\n    pass\n", monkeypatch)
    before = values.source("my_mappers:Mine")
    file.write_text("class Mine:\n    depth = 2\n", "utf-8")
    own_classes.forget("my_mappers")
    assert values.source("my_mappers:Mine") != before
    assert values.source("rtm.models.mappers:RTM") == {}


def test_a_measurement_asks_for_a_share_of_the_training() -> None:
    experiment = max(PAPER.experiments.values(), key=lambda each: each.recipe.resources.gpus)
    whole = experiment.recipe.resources
    share = values.measuring(experiment)
    assert (share.gpus, share.gpu_model) == (1, whole.gpu_model)
    assert share.cpus == whole.cpus // whole.gpus
    assert share.hours <= 8
