"""The experiments of params/: their depths, their architectures, and the paper's numbers."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from support import PARAMS

from rtm.config import Experiment, load
from rtm.config.experiments import DecoderConfig, Halting
from rtm.core.errors import UserError
from rtm.stages.evaluate import Evaluate


def experiment(name: str) -> Experiment:
    return load("paper", PARAMS).experiments[name]


def test_a_sweep_draws_each_depth_and_a_control_for_halting() -> None:
    halting = Halting(tolerance=0.05, max=32)
    depths = replace(experiment("cifar10_imle_rtm"), sweep=(4, halting)).depths
    options = {name: depth.options() for name, depth in depths.items()}
    halted = {"tolerance": 0.05, "max_H": 32}
    assert options == {"native": {"H": 16}, "H4": {"H": 4}, "halt_0_05_32": halted, "halt_0_05_32_shuffled": halted}
    assert [name for name, depth in depths.items() if depth.shuffled] == ["halt_0_05_32_shuffled"]


def test_a_mapper_without_recursion_has_no_depth() -> None:
    assert {name: depth.options() for name, depth in experiment("cifar10_imle_mlp").depths.items()} == {"native": {}}


def test_only_a_conditional_generator_has_classes() -> None:
    gan = experiment("cifar10_stylegan2_rtm")
    assert gan.architecture.classes == gan.dataset.classes == 10
    assert gan.architecture.decoder is None
    imle = experiment("cifar10_imle_rtm").architecture
    assert imle.classes == 0
    assert imle.stylegan2 is None
    assert imle.decoder is not None


def test_classes_from_outside_are_named() -> None:
    chosen = experiment("cifar10_imle_rtm")
    own = chosen.dataset.model_copy(update={"kind": "my_data:squares"})
    assert chosen.outside == ()
    assert replace(chosen, dataset=own).outside == ("my_data:squares",)


def test_the_papers_schedules_are_as_published() -> None:
    experiments = load("paper", PARAMS).experiments
    assert experiments["cifar10_stylegan2_rtm"].steps() == 200_000
    assert experiments["cifar10_stylegan2_ada_rtm"].steps() == 1_000_000
    assert experiments["cifar10_imle_rtm"].variants[:5] == ("native", "H8", "H16", "H32", "H64")
    hours = sum(e.recipe.resources.gpus * e.recipe.resources.hours for e in experiments.values())
    assert 3_000 < hours < 4_000  # twice the hours of `rtm plan`; the paper's App. E reports about ten thousand


@pytest.mark.parametrize(
    ("name", "resolution", "block", "width", "stages", "blocks"),
    [  # the paper's table of decoders (App. C)
        ("cifar10", 32, "convnext", 768, 5, 22),
        ("celebahq", 256, "convnext", 768, 8, 34),
        ("fewshot", 256, "residual", 384, 8, 28),
    ],
)
def test_the_decoders_are_the_papers(
    name: str,
    resolution: int,
    block: str,
    width: int,
    stages: int,
    blocks: int,
) -> None:
    decoder = load("paper", PARAMS).params.decoders[name]
    assert isinstance(decoder, DecoderConfig)
    assert (decoder.resolution, decoder.block, decoder.width) == (resolution, block, width)
    assert (len(decoder.blocks), sum(decoder.blocks.values())) == (stages, blocks)


def test_the_mappers_have_the_papers_numbers_of_parameters() -> None:
    import torch

    from rtm.models.layers import parameters
    from rtm.models.registry import build_mapper

    mappers = load("paper", PARAMS).params.mappers
    expected = {"style_mlp2": 525_312, "style_mlp16": 4_202_496, "style_mlp32": 8_404_992, "rtm_16_1": 657_600}
    with torch.device("meta"):
        assert {
            name: parameters(build_mapper({"kind": mappers[name].kind, **mappers[name].options()}, 512))
            for name in expected
        } == expected


@pytest.mark.parametrize(
    ("scale", "kind", "name", "message"),
    [
        ("paper", "experiments", "cifar10_rtm", "Did you mean cifar10_imle_rtm, "),
        ("paper", "experiments", "digits_rtm", "digits_rtm is not at scale paper; add `--scale demo`."),
        ("demo", "tables", "tab_cifar10", "add `--scale paper` or `--scale smoke`."),
        ("paper", "figures", "fig_digits_samples", "add `--scale demo`."),
        ("demo", "tables", "tab_digit", "named 'tab_digit'; choose one of tab_digits, "),  # few: it lists all
    ],
)
def test_an_unknown_name_is_answered_with_what_helps(
    scale: str,
    kind: Literal["experiments", "tables", "figures"],
    name: str,
    message: str,
) -> None:
    with pytest.raises(UserError) as error:
        load(scale, PARAMS).pick(kind, name)
    assert message in str(error.value)


def test_at_moves_every_folder(tmp_path: Path) -> None:
    config = load("smoke")
    moved = config.at(tmp_path)
    assert Evaluate().path(moved, "metrics", experiment="a", protocol="b", seed=0) == tmp_path / Evaluate().path(
        config, "metrics", experiment="a", protocol="b", seed=0
    )
    assert (moved.root, moved.shared) == (tmp_path / config.root, tmp_path / config.shared)
    assert moved.networks == tmp_path / config.networks
    assert moved.experiments is config.experiments
