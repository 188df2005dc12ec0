"""Impossible parameters are refused; the message names the file, the key and the allowed values."""

import json
from pathlib import Path
from typing import Literal

import pytest
from support import PARAMS

from rtm.config import load, schema
from rtm.config.experiments import DecoderConfig
from rtm.core.errors import UserError

SCALES = ["paper", "demo", "desk", "smoke"]


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_loads(scale: str) -> None:
    config = load(scale, PARAMS)
    assert config.experiments and config.tables


@pytest.mark.parametrize(
    ("scale", "kind", "name", "message"),
    [
        ("paper", "experiments", "cifar10_rtm", "Did you mean cifar10_imle_rtm, "),
        ("paper", "experiments", "digits_rtm", "digits_rtm is not at scale paper; add `--scale demo`."),
        ("demo", "tables", "tab_cifar10", "add `--scale paper` or `--scale smoke`."),
        ("paper", "figures", "fig_digits_samples", "add `--scale demo`."),
        ("demo", "tables", "tab_digit", "named 'tab_digit'; choose one of tab_digits, "),  # few: all of them
    ],
)
def test_an_unknown_name_is_answered_with_what_helps(
    scale: str, kind: Literal["experiments", "tables", "figures"], name: str, message: str
) -> None:
    with pytest.raises(UserError) as error:
        load(scale, PARAMS).pick(kind, name)
    assert message in str(error.value)


def test_smoke_is_the_paper_made_small() -> None:
    paper, smoke = load("paper", PARAMS), load("smoke", PARAMS)
    assert list(paper.experiments) == list(smoke.experiments)
    assert list(paper.tables) == list(smoke.tables) and list(paper.figures) == list(smoke.figures)
    assert all(e.recipe.resources.gpus == 0 and e.steps() <= 10 for e in smoke.experiments.values())
    assert all(e.recipe.resources.gpus >= 1 for e in paper.experiments.values())


MISTAKES = [  # file, text, replacement, parts of the message
    ("mappers.yaml", "H: 8, L: 2}", "H: 0, L: 2}", ["mappers.yaml: mappers.rtm_8_2.H", "greater than 0"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: '8', L: 2}", ["mappers.rtm_8_2.H", "valid integer", "'8'"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: 8, L: 2, tokens: 3}", ["rtm.mapper", "3 tokens x width 128", "1024"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: 8, L: 2, width: 100}", ["dim 1024", "width 100"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: 8, L: 2, Hs: 3}", ["mappers.rtm_8_2.Hs", "unknown key 'Hs'", "one of H, L"]),
    (
        "mappers.yaml",
        "kind: rtm, H: 8, L: 2}",
        "kind: rtx, H: 8, L: 2}",
        ["no kind 'rtx'; did you mean rtm,"],
    ),
    ("decoders.yaml", "block: residual", "block: residuel", ["decoders.fewshot.block", "'residual' or 'convnext'"]),
    ("decoders.yaml", "8: 6, 16: 6, 32: 6}", "8: 6, 32: 6}", ["decoders.cifar10", "32 follows 8"]),
    ("decoders.yaml", "16: 6, 32: 6}", "16: 6, 32: 0}", ["decoders.cifar10.blocks.32", "greater than 0"]),
    ("decoders.yaml", "16: 6, 32: 6}", "16: 6, 32: 6}\n    widths: {64: 8}", ["[64], which have no blocks"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: 2e", ["recipes.yaml: recipes.cifar10_imle.training.lr", "valid number"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: -1.0", ["training.lr", "greater than 0"]),
    ("recipes.yaml", "pool: 10.0", "poll: 10.0", ["imle.poll", "choose one of adaptive, chunk, epsilon"]),
    ("recipes.yaml", "epsilon: 0.", "epsilon: -0.", ["imle.epsilon", "greater than or equal to 0"]),
    ("recipes.yaml", "refresh: 2, ", "refresh: 2, stagger: 3, ", ["imle.stagger", "boolean"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: 8, L: 2, learnable_init: true}", ["learnable_init needs gradient_steps: 8"]),
    ("datasets.yaml", "kind: subset\n      of: cifar10", "kind: subset", ["cifar10_horse100", "kind subset needs of"]),
    ("datasets.yaml", "      of: cifar10", "      of: cifar11", ["cifar10_horse100.of", "there is no 'cifar11'"]),
    ("datasets.yaml", "label: 7\n", "label: 10\n", ["cifar10_horse100", "a label below its classes"]),
    ("recipes.yaml", "epochs: 6000", "epochs: 6000\n      steps: 3", ["exactly one of epochs and steps"]),
    ("recipes.yaml", "decoder: cifar10", "decoder: fewshot", ["ends at 256 px", "32 px"]),
    ("datasets.yaml", "resolution: 512", "resolution: 500", ["afhq_stylegan2_ada", "a power of two", "500 px"]),
    (
        "experiments.yaml",
        "mapper: mlp8}",
        "mapper: mlp9}",
        ["experiments.yaml: experiments.cifar10_imle_mlp.mapper", "'mlp9'", "choose one of mlp8"],
    ),
    ("experiments.yaml", "mapper: mlp8}", "mapper: mlp8, sweep: [3]}", ["only a recursive mapper"]),
    ("experiments.yaml", "cifar10_imle_rtm:", "cifar10_imle_mlp:", ["is written twice"]),
    ("experiments.yaml", "mapper: mlp8}", "mapper: mlp8", ["not valid YAML"]),
    ("scales.yaml", "tables: [tab_cifar10", "tables: [tab_cifar11", ["'tab_cifar11'", "tab_cifar10"]),
    ("experiments.yaml", "mapper: mlp8}", "mapper: mlp8, seeds: [0, 1, 0]}", ["mlp.seeds", "0 is listed more than"]),
    ("experiments.yaml", "sweep: [8, 16, 32, 64,", "sweep: [8, 8,", ["sweep", "8 is listed more than once"]),
    ("experiments.yaml", "{tolerance: 0.05, max: 64}", "{tolerance: 0.05}", ["sweep", "max"]),
    (
        "experiments.yaml",
        "{tolerance: 0.05, max: 64}",
        "{tolerance: 1.5, max: 64}",
        ["tolerance", "less than or equal"],
    ),
    (
        "recipes.yaml",
        "imle: {pool: 10.0,",
        "imle: {fixed_point: 1.0, pool: 10.0,",
        ["fixed_point needs a recursive"],
    ),
    ("recipes.yaml", "protocols: [paper]", "protocols: [paper, paper]", ["evaluation.protocols", "paper is listed"]),
    ("recipes.yaml", "protocols: [paper]", "protocols: []", ["evaluation.protocols", "at least 1 item"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: .inf", ["training.lr", "finite number"]),
    ("mappers.yaml", "lr_mul: 0.01", "lr_mul: .inf", ["lr_mul", "finite number"]),
    ("recipes.yaml", "samples: 50000", "samples: 100", ["samples is 100, protocol paper asks for 50000"]),
    ("recipes.yaml", "samples: 300}", "samples: 50000}", ["demo.digits_", "50000 samples", "of 300 images"]),
    ("recipes.yaml", "[studiogan]", "[studiogan, papr]", ["protocol", "'papr'", "choose one of paper"]),
    (
        "recipes.yaml",
        "conditional: true",
        "conditional: true\n      select_protocol: x",
        ["select_protocol", "'x'", "paper"],
    ),
    ("protocols.yaml", "k: 3", "k: 500000", ["protocol paper has k = 500000", "lower its k"]),
    ("protocols.yaml", "splits: 10", "splits: 500000", ["protocol paper has 500000 splits"]),
    ("protocols.yaml", "default: 1797}", "digits: 1797}", ["protocols.digits", "needs a default"]),
    ("protocols.yaml", "digits300: digits_rest", "digits300: digits_left", ["'digits_left'", "not a dataset"]),
    ("datasets.yaml", "resize: bilinear", "resize: bilinear\n      first: 3", ["digits and subset can have first"]),
    ("decoders.yaml", "{1: 1, 4: 3, 8: 6, 16: 6, 32: 6}", "{}", ["cifar10.blocks", "at least 1"]),
    ("mappers.yaml", "mappers:", "- mappers:", ["mappers.yaml: write names with their values"]),
    ("scales.yaml", "  demo:\n", "  demo:\n  other:\n", ["scales.yaml: scales.demo", "got None"]),
    ("scales.yaml", "experiments: demo", "experiments: dmeo", ["scales.demo.experiments", "'demo' or 'desk'"]),
    ("scales.yaml", "root: demo", "root: demo\n    overrides:", ["scales.demo.overrides", "got None"]),
    ("scales.yaml", "      recipes:", "      recipse:", ["no section 'recipse'", "recipes"]),
    ("scales.yaml", '"*_imle*":', '"*_iml":', ["smoke.overrides.recipes.*_iml: no name matches", "digits_imle"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: 2.0e-4\n      ema: 1.0", ["training.ema", "less than 1"]),
    ("recipes.yaml", "betas: [0.5, 0.999]", "betas: [1.0, 1.0]", ["training.betas.0", "less than 1"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: 1.0e+30", ["training.lr", "less than or equal to 10"]),
    ("published.yaml", "precision: 0.674", "precision: -1.0e+30", ["values.precision", "greater than or equal to 0"]),
    ("published.yaml", "precision: 0.674", "precision: 1.5", ["precision must lie between 0 and 1"]),
    ("scales.yaml", "root: demo", "root: '; touch x'", ["scales.demo.root", "match pattern"]),
    ("scales.yaml", "root: demo", "root: ../demo", ["scales.demo.root", "match pattern"]),
    (
        "scales.yaml",
        "root: demo",
        "root: 2024-99-99",
        ["scales.yaml is not valid YAML", "put a text in quotes", "line"],
    ),
    ("scales.yaml", "root: demo", "root: 2024-09-09", ["a date has no place here", "line"]),
    ("scales.yaml", "root: demo", "root: 0x_", ["put a text in quotes", "line"]),
    ("scales.yaml", "root: demo", "root: &a [*a]", ["aliases stand for more than 200,000 values"]),
    ("scales.yaml", "root: demo", "root: {2024-01-01: 1}", ["a date has no place here; put a text in quotes"]),
    ("scales.yaml", "root: demo", "root: {on: 1}", ["True is no name"]),
    ("scales.yaml", "root: demo", "root: [" + "[" * 100_000, ["nested more than 50 deep"]),
    ("scales.yaml", "root: demo", 'root: "\\e[2J"', ["control characters"]),
    ("tables.yaml", "label: tab:cifar10", "label: 'a}\\\\input{x'", ["tables.tab_cifar10.label", "match pattern"]),
    ("scales.yaml", "      mappers:", "      mappers: []\n      datasets2:", ["overrides.mappers", "got []"]),
]


@pytest.mark.parametrize(("file", "text", "replacement", "message"), MISTAKES)
def test_a_mistake_is_named(params: Path, file: str, text: str, replacement: str, message: list[str]) -> None:
    path = params / file
    assert text in path.read_text()
    path.write_text(path.read_text().replace(text, replacement, 1))
    with pytest.raises(UserError) as error:
        for scale in SCALES:
            load(scale, params)
    for part in message:
        assert part in str(error.value)


def test_an_unknown_scale_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="choose one of paper, demo, desk, smoke"):
        load("huge", PARAMS)
    with pytest.raises(UserError, match="root of the repository"):
        load("paper", tmp_path / "params")


def test_a_file_of_another_encoding_and_a_missing_one_are_named(params: Path) -> None:
    mappers = params / "mappers.yaml"
    mappers.write_bytes(mappers.read_bytes() + b"# \xe9\n")
    with pytest.raises(UserError, match=r"mappers\.yaml is not UTF-8 text"):
        load("paper", params)
    (params / "scales.yaml").unlink()
    mappers.write_bytes((PARAMS / "mappers.yaml").read_bytes())
    with pytest.raises(UserError, match=r"scales\.yaml is missing .* `git checkout"):
        load("paper", params)


def test_the_schema_on_disk_is_the_models(tmp_path: Path) -> None:
    """If this fails: rtm schema > params/schema.json"""
    assert json.loads((PARAMS / "schema.json").read_text()) == schema()


def test_the_papers_schedules_are_as_published() -> None:
    experiments = load("paper", PARAMS).experiments
    assert experiments["cifar10_stylegan2_rtm"].steps() == 200_000
    assert experiments["cifar10_stylegan2_ada_rtm"].steps() == 1_000_000
    assert experiments["cifar10_imle_rtm"].variants[:5] == ("native", "H8", "H16", "H32", "H64")
    hours = sum(e.recipe.resources.gpus * e.recipe.resources.hours for e in experiments.values())
    assert 3_000 < hours < 4_000  # twice those of `rtm plan`; the paper's App. E reports about ten thousand


@pytest.mark.parametrize(
    ("name", "resolution", "block", "width", "stages", "blocks"),
    [  # the paper's table of decoders (App. C)
        ("cifar10", 32, "convnext", 768, 5, 22),
        ("celebahq", 256, "convnext", 768, 8, 34),
        ("fewshot", 256, "residual", 384, 8, 28),
    ],
)
def test_the_decoders_are_the_papers(
    name: str, resolution: int, block: str, width: int, stages: int, blocks: int
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
