"""Every scale loads; a mistake is named with its file, its key and the allowed values."""

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]
import pytest
from support import PARAMS

from rtm.config import load, schema
from rtm.config.loading import overridden
from rtm.config.reading import Raw, parsed
from rtm.core.errors import UserError

Refusal = Callable[[str, str, str], str]
SCALES = ["paper", "demo", "desk", "smoke"]


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_loads(scale: str) -> None:
    config = load(scale, PARAMS)
    assert config.experiments
    assert config.tables


def test_smoke_is_the_paper_made_small() -> None:
    paper = load("paper", PARAMS)
    smoke = load("smoke", PARAMS)
    assert list(paper.experiments) == list(smoke.experiments)
    assert list(paper.tables) == list(smoke.tables)
    assert list(paper.figures) == list(smoke.figures)
    assert all(e.recipe.resources.gpus == 0 and e.steps() <= 10 for e in smoke.experiments.values())
    assert all(e.recipe.resources.gpus >= 1 for e in paper.experiments.values())


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


def test_the_schema_on_disk_is_the_models() -> None:
    """If this fails:

    python -c 'import json; from rtm.config import schema; print(json.dumps(schema(), indent=2))' > params/schema.json
    """
    assert json.loads((PARAMS / "schema.json").read_text("utf-8")) == schema()


@pytest.mark.parametrize("file", sorted(PARAMS.glob("*.yaml")), ids=lambda file: file.stem)
def test_an_editor_finds_the_schema_that_fits(file: Path) -> None:
    text = file.read_text("utf-8")
    assert text.splitlines()[0] == "# yaml-language-server: $schema=schema.json"
    jsonschema.validate(json.loads(json.dumps(parsed(text))), schema())


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
    ("mappers.yaml", "H: 8, L: 2}", "H: 1:30, L: 2}", ["valid integer (got '1:30')"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: 65536, L: 2}", ["less than or equal to 4096 (got 65536)"]),
    ("mappers.yaml", "H: 8, L: 2}", "H: 4096, L: 4}", ["H * (L + 1) is 20,480"]),
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
    ("scales.yaml", "experiments: demo", "experiments: dmeo", ["scales.demo.experiments", "'demo' or 'desk'"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: 2.0e-4\n      ema: 1.0", ["training.ema", "less than 1"]),
    ("recipes.yaml", "betas: [0.5, 0.999]", "betas: [1.0, 1.0]", ["training.betas.0", "less than 1"]),
    ("recipes.yaml", "lr: 2.0e-4", "lr: 1.0e+30", ["training.lr", "less than or equal to 10"]),
    ("published.yaml", "precision: 0.674", "precision: -1.0e+30", ["values.precision", "greater than or equal to 0"]),
    ("published.yaml", "precision: 0.674", "precision: 1.5", ["precision must lie between 0 and 1"]),
    ("scales.yaml", "root: demo", "root: '; touch x'", ["scales.demo.root", "match pattern"]),
    ("scales.yaml", "root: demo", "root: ../demo", ["scales.demo.root", "match pattern"]),
    ("scales.yaml", "root: demo", "root: {true: 1}", ["scales.yaml is not valid YAML: True is no name"]),
    ("tables.yaml", "label: tab:cifar10", "label: 'a}\\\\input{x'", ["tables.tab_cifar10.label", "match pattern"]),
    ("scales.yaml", "  demo:\n", "  demo:\n  other:\n", ["scales.yaml: scales.demo", "got None"]),
    ("scales.yaml", "root: demo", "root: demo\n    overrides:", ["scales.demo.overrides", "got None"]),
    ("scales.yaml", "      recipes:", "      recipse:", ["no section 'recipse'", "recipes"]),
    ("scales.yaml", '"*_imle*":', '"*_iml":', ["smoke.overrides.recipes.*_iml: no name matches", "digits_imle"]),
    ("scales.yaml", "      mappers:", "      mappers: []\n      datasets2:", ["overrides.mappers", "got []"]),
]


@pytest.mark.parametrize(("file", "text", "replacement", "message"), MISTAKES)
def test_a_mistake_is_named(
    refusal: Refusal,
    file: str,
    text: str,
    replacement: str,
    message: list[str],
) -> None:
    sentence = refusal(file, text, replacement)
    assert [part for part in message if part not in sentence] == []


def test_a_pattern_changes_what_it_names_and_nothing_of_the_others() -> None:
    """Mappings with names are merged; other values are replaced, also mappings with numbers as keys."""
    overrides = {
        "mappers": {"*": {"H": 1}, "own": {"size": 2}},
        "decoders": {"a": {"blocks": {4: 1}, "noise": {"x": 1}}},
    }
    raw: Raw = {
        "scales": {"small": {"overrides": overrides}},
        "mappers": {"a": {"kind": "rtm", "H": 8, "L": 2}, "own": {"kind": "my.module:Mapper", "size": 3}},
        "decoders": {"a": {"blocks": {1: 1, 4: 2}, "noise": {"x": 2, "y": 3}}},
    }
    changed = overridden(raw, "small", Path("scales.yaml"))
    assert changed["mappers"] == {
        "a": {"kind": "rtm", "H": 1, "L": 2},
        "own": {"kind": "my.module:Mapper", "size": 2},  # "*" skips it, because its options are unknown
    }
    assert changed["decoders"] == {"a": {"blocks": {4: 1}, "noise": {"x": 1, "y": 3}}}
    assert raw["mappers"]["a"] == {"kind": "rtm", "H": 8, "L": 2}
