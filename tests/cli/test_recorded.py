"""`rtm generate EXPERIMENT` draws only from the checkpoint of the receipt; a file is drawn with its own description."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from support import PARAMS, checkpoints, fake_results
from support.checkpoints import IMLE

from rtm.config import load
from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.stages.train import Train

JOB = Train().job(load("smoke", PARAMS), experiment=IMLE, seed=0)
NAME = f"smoke/{IMLE}"


@pytest.fixture(autouse=True)
def as_recorded(folder: Path) -> None:
    checkpoints.write(folder / JOB.first, IMLE)
    fake_results.sign(folder, JOB)
    shutil.rmtree(folder / "generated", ignore_errors=True)


@pytest.mark.parametrize("words", [(), ("--card", "card")])
def test_other_weights_than_those_of_the_receipt_are_refused_but_drawn_as_a_file(
    folder: Path, call: Any, words: tuple[str, ...]
) -> None:
    checkpoints.write(folder / JOB.first, IMLE, perturbed=False)
    refusal = f"rtm: {JOB.first} is not the file of its receipt; bring it back with `dvc checkout {JOB.first}`."
    assert call("generate", NAME, *words) == [refusal]
    assert not [*folder.glob("generated/*"), *folder.glob("card")]
    (drawn,) = call("generate", str(JOB.first))
    assert (folder / drawn).exists()


def test_a_receipt_that_contradicts_itself_is_refused(folder: Path, call: Any) -> None:
    receipt = read_json(folder / JOB.receipt)
    write_json(folder / JOB.receipt, receipt | {"fingerprint": "other"})
    (line,) = call("generate", NAME)
    assert line.startswith(f"rtm: {JOB.receipt} was edited: its fingerprint does not follow from its parts; bring it")
    write_json(folder / JOB.receipt, receipt | {"outputs": {}})
    (line,) = call("generate", NAME)
    assert line.startswith(f"rtm: {JOB.receipt} names other outputs: ")


def test_weights_without_a_receipt_are_only_a_file(folder: Path, call: Any) -> None:
    (folder / JOB.receipt).unlink()
    (line,) = call("generate", NAME)
    assert line.startswith(f"rtm: {JOB.first} has no receipt: bring it back with `git checkout -- {JOB.receipt}`")
    assert line.endswith(f", or draw from the file: `rtm generate {JOB.first}`.")
    assert call("generate", NAME, "--card", "unsigned") == ["unsigned"]
    assert "not recorded: this file has no receipt" in (folder / "unsigned/README.md").read_text("utf-8")
