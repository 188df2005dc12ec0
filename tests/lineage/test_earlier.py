"""Earlier results: addresses without names, and only the right bytes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.small_jobs import digest_of, edit, job, make, state, train, training
from support.workspace import git

from rtm.core.files import write_text
from rtm.lineage import cache
from rtm.lineage.earlier import SWITCH, Earlier, address
from rtm.lineage.freshness import Freshness, State
from rtm.stages.base import Job

pytestmark = pytest.mark.usefixtures("repository")


def served(made: Job) -> bool:
    return Earlier(Freshness()).serve(made)


def object_of(text: str) -> Path:
    """The place of a text in DVC's cache."""
    md5 = digest_of(text)
    return Path(".dvc/cache/files/md5", md5[:2], md5[2:])


def forget(made: Job) -> None:
    """Remove the files and the receipt of a job, as if it was never made under this name."""
    for path in (*made.outputs.values(), made.receipt):
        path.unlink()


# addresses


def test_an_address_has_no_names_in_it() -> None:
    here = address("gallery", {"params": {"lr": 1}, "inputs": {"train/a/seed0": "1", "dataset/cifar10": "2"}})
    there = address("gallery", {"params": {"lr": 1}, "inputs": {"dataset/other": "2", "demo/train/b/seed0": "1"}})
    assert here == there


@pytest.mark.parametrize(
    ("stage", "params", "inputs"),
    [
        ("gallery", {"lr": 2}, {"train/a/seed0": "1", "dataset/cifar10": "2"}),
        ("gallery", {"lr": 1}, {"train/a/seed0": "2", "dataset/cifar10": "1"}),
        ("gallery", {"lr": 1}, {"train/a/seed0": "1"}),
        ("train", {"lr": 1}, {"train/a/seed0": "1", "dataset/cifar10": "2"}),
    ],
)
def test_other_values_inputs_and_stages_have_other_addresses(
    stage: str, params: dict[str, int], inputs: dict[str, str]
) -> None:
    here = address("gallery", {"params": {"lr": 1}, "inputs": {"train/a/seed0": "1", "dataset/cifar10": "2"}})
    assert address(stage, {"params": params, "inputs": inputs}) != here


def test_a_null_is_no_parameter() -> None:
    without: dict[str, Any] = {"params": {"a": {}, "c": None}, "inputs": {}}
    assert address("train", {"params": {"a": {"b": None}}, "inputs": {}}) == address("train", without)


# served results


@pytest.mark.parametrize("scale", ["paper", "demo"])
def test_a_training_is_served_under_another_name_and_scale(scale: str) -> None:
    train(training())
    write_text("lineage/train/damaged.json", "{")  # it is no result
    other = training("y", scale)
    assert served(other)
    assert other.first.read_text("utf-8") == "weights"
    assert state(other) is State.FRESH
    made = [json.loads(each.receipt.read_text("utf-8"))["made"] for each in (training(), other)]
    assert made[0] == made[1]


def test_other_values_and_other_code_are_not_served(package: Path) -> None:
    train(training(lr=1))
    assert not served(training("y", lr=2))
    edit(package, "third", "return 2", "return 3")
    assert not served(training("y", lr=1))


def test_a_training_set_back_takes_its_first_weights() -> None:
    """A value goes from 1 to 2 and back. Nothing was committed in between."""
    train(training(lr=1), "first")
    train(training(lr=2), "second")
    assert served(training(lr=1))
    assert training().first.read_text("utf-8") == "first"
    assert served(training(lr=2))
    assert training().first.read_text("utf-8") == "second"


def test_a_result_of_another_branch_is_served() -> None:
    train(training(), "of a branch")
    git("checkout", "-q", "-b", "branch")
    git("add", "lineage")
    git("commit", "-q", "-m", "a result")
    git("rm", "-q", "-r", "lineage")
    git("commit", "-q", "-m", "gone")
    training().first.unlink()
    assert served(training())
    assert training().first.read_text("utf-8") == "of a branch"


def test_metrics_name_their_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SECONDS", 0.0)
    measured = job("evaluate")
    make(measured)
    cache.keep(measured)
    other = job("evaluate", experiment="y")
    other.outputs["text"] = Path("out/y.txt")
    assert not served(other)
    measured.first.unlink()
    assert served(measured)


@pytest.mark.parametrize(("value", "is_served"), [("off", False), ("asked", True)])
def test_the_cache_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, value: str, is_served: bool) -> None:
    train(training())
    monkeypatch.setenv(SWITCH, value)
    assert served(training("y")) is is_served


def test_a_right_receipt_of_other_bytes_stays() -> None:
    """Two runs of a training give different bytes. Absent weights come back with the bytes of the recorded run."""
    train(training(), "one run")
    first = training().receipt.read_text("utf-8")
    cache.remember(json.loads(first))
    forget(training())
    train(training(), "another run")
    training().first.unlink()
    training().receipt.write_text(first, "utf-8")
    assert served(training())
    assert training().first.read_text("utf-8") == "one run"
    assert training().receipt.read_text("utf-8") == first


def test_damaged_objects_are_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    train(training())
    damaged = object_of("weights")
    damaged.chmod(0o644)
    damaged.write_text("thgiew!", "utf-8")
    training().first.unlink()
    assert not served(training("y"))
    assert "is damaged: it is deleted" in capsys.readouterr().err
    assert not damaged.exists()
    assert not training("y").first.exists()


def test_a_receipt_cannot_name_files_elsewhere() -> None:
    train(training())
    receipt = json.loads(training().receipt.read_text("utf-8"))
    for recorded in receipt["outputs"].values():
        recorded["md5"] = "../../../etc/passwd"
    training().receipt.write_text(json.dumps(receipt), "utf-8")
    assert Earlier(Freshness())._of("train") == {}


def far_away(repository: Path) -> Path:
    """The folder of DVC's remote."""
    return repository.parent / "far"


def test_a_remote_brings_back_what_is_right_alone(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(training())
    shutil.move(".dvc/cache", far_away(repository))
    for path in training().outputs.values():
        path.unlink()
    assert served(training("y"))
    assert training("y").first.read_text("utf-8") == "weights"
    forget(training("y"))
    shutil.rmtree(".dvc/cache")
    damaged = far_away(repository) / object_of("weights").relative_to(".dvc/cache")
    damaged.chmod(0o644)
    damaged.write_text("thgiew!", "utf-8")
    assert not served(training("y"))
    assert "is damaged" in capsys.readouterr().err
