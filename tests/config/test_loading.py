"""Impossible parameters are refused; the message names the file, the key and the allowed values."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from support import PARAMS

from rtm.config import load, schema
from rtm.core.errors import UserError

SCALES = ["paper", "demo", "desk", "smoke"]
Refusal = Callable[[str, str, str], str]


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
        ("demo", "tables", "tab_digit", "named 'tab_digit'; choose one of tab_digits, "),  # few: it lists all
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
    ("recipes.yaml", "epochs: 6000", "epochs: 6000\n      steps: 3", ["exactly one of epochs and steps"]),
    ("experiments.yaml", "cifar10_imle_rtm:", "cifar10_imle_mlp:", ["is written twice"]),
    ("experiments.yaml", "mapper: mlp8}", "mapper: mlp8", ["not valid YAML"]),
    ("experiments.yaml", "mapper: mlp8}", "mapper: mlp8, seeds: [0, 1, 0]}", ["mlp.seeds", "0 is listed more than"]),
    ("experiments.yaml", "sweep: [8, 16, 32, 64,", "sweep: [8, 8,", ["sweep", "8 is listed more than once"]),
    ("experiments.yaml", "{tolerance: 0.05, max: 64}", "{tolerance: 0.05}", ["sweep", "max"]),
    (
        "experiments.yaml",
        "{tolerance: 0.05, max: 64}",
        "{tolerance: 1.5, max: 64}",
        ["tolerance", "less than or equal"],
    ),
    ("recipes.yaml", "protocols: [paper]", "protocols: [paper, paper]", ["evaluation.protocols", "paper is listed"]),
    ("recipes.yaml", "protocols: [paper]", "protocols: []", ["evaluation.protocols", "at least 1 item"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: .inf", ["training.lr", "finite number"]),
    ("mappers.yaml", "lr_mul: 0.01", "lr_mul: .inf", ["lr_mul", "finite number"]),
    ("protocols.yaml", "default: 1797}", "digits: 1797}", ["protocols.digits", "needs a default"]),
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
def test_a_mistake_is_named(refusal: Refusal, file: str, text: str, replacement: str, message: list[str]) -> None:
    found = refusal(file, text, replacement)
    assert [part for part in message if part not in found] == []


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
