"""The start of every verb: the parameters and files of a scale or a variant, and a receipt for the verb's files."""

import argparse
from pathlib import Path

import pytest
from support import PARAMS

from rtm.cli.context import Context
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.pipeline.graph import jobs

CHANGES = ["mapper.H=4", "training.lr=1e-3"]


@pytest.fixture(autouse=True)
def _workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params").symlink_to(PARAMS)
    monkeypatch.chdir(tmp_path)


def context() -> Context:
    return Context(argparse.Namespace(scale="demo"))


def test_an_experiment_is_that_of_the_scale() -> None:
    found = context()
    assert found.experiment("digits_rtm", 2) == found.config.experiments["digits_rtm"]
    assert found.layout.checkpoint("digits_rtm", 2) == Path("demo/checkpoints/digits_rtm/seed2.safetensors")


def test_an_unknown_seed_is_answered_with_those_that_are() -> None:
    with pytest.raises(UserError) as error:
        context().experiment("digits_rtm", 7)
    assert str(error.value) == "digits_rtm has no seed 7; choose one of 0, 1, 2, or add the seed in params/."


def test_changes_and_a_variants_name_give_the_same_variant_in_its_own_place() -> None:
    changed, named = context(), context()
    one = changed.experiment("digits_rtm", 0, CHANGES)
    other = named.experiment(f"digits_rtm+{'+'.join(reversed(CHANGES))}", 0)
    assert one == other and one.recipe.training.lr == 1e-3 and one.name.startswith("digits_rtm+")
    assert changed.layout.checkpoint(one.name, 0).parts[:2] == named.layout.checkpoint(one.name, 0).parts[:2]
    assert changed.layout.checkpoint(one.name, 0).parts[0] == "variants"
    assert context().experiment("digits_rtm").recipe.training.lr != 1e-3


def test_what_fails_leaves_no_receipt() -> None:
    found, receipt = context(), Path("lineage/fetch/digits.json")
    with pytest.raises(RuntimeError), found.recorded("fetch", "digits"):
        raise RuntimeError
    assert not receipt.exists()
    with found.recorded("fetch", "digits"):
        for path in jobs(found.config)["fetch/digits"].outputs:
            write_text(path, "images")
    assert receipt.exists()
