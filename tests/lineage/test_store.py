"""The store: addresses without names, only right bytes, and links that save space but protect the bytes."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.small_jobs import digest_of, shelf, train, training

from rtm.core.files import write_text
from rtm.lineage import store as module
from rtm.lineage.fingerprint import present
from rtm.lineage.job import Job, Stage, Subject
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.store import Entry, address, kept, place, served
from rtm.pipeline.graph import LIGHT

pytestmark = pytest.mark.usefixtures("repository")

# addresses


def test_an_address_has_no_names_in_it() -> None:
    here = address("gallery", {"params": {"lr": 1}, "inputs": {"train/a/seed0": "1", "fetch/cifar10": "2"}})
    there = address("gallery", {"params": {"lr": 1}, "inputs": {"fetch/other": "2", "demo/train/b/seed0": "1"}})
    assert here == there
    for params, inputs in [
        ({"lr": 2}, {"train/a/seed0": "1", "fetch/cifar10": "2"}),
        ({"lr": 1}, {"train/a/seed0": "2", "fetch/cifar10": "1"}),
        ({"lr": 1}, {"train/a/seed0": "1"}),
    ]:
        assert address("gallery", {"params": params, "inputs": inputs}) != here
    assert address("train", {"params": {"lr": 1}, "inputs": {"train/a/seed0": "1", "fetch/cifar10": "2"}}) != here


def test_a_null_is_no_parameter_and_an_input_that_was_never_made_has_no_address() -> None:
    assert address("train", {"params": {"a": {"b": None}}, "inputs": {}}) == address(
        "train", {"params": {"a": {}, "c": None}, "inputs": {}}
    )
    assert address("train", {"params": {}, "inputs": {"fetch/x": None}}) is None


# served results


@pytest.mark.parametrize("root", ["", "demo/"])
def test_a_training_is_served_under_another_name_and_scale(root: str) -> None:
    train(training())
    other = training("y", root)
    assert served(other)
    assert other.outputs[0].read_text() == "weights" and Ledger().state(other) is State.FRESH
    receipt = json.loads(other.receipt.read_text())
    assert receipt["from"]["job"] == "train/x/seed0"
    assert receipt["made"] == json.loads(training().receipt.read_text())["made"]
    assert len(shelf().entries()) == 1


def test_other_parameters_and_other_code_are_not_served(repository: Path) -> None:
    train(training(lr=1))
    assert not served(training("y", lr=2))
    write_text(repository / "rtm/first.py", "def main():\n    return 2\n")
    present.cache_clear()
    assert not served(training("y", lr=1))


def test_metrics_name_their_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(name: str) -> Job:
        subject = Subject(experiment=name, protocol="paper", seed=0)
        output = Path(f"results/{name}/paper/seed0.json")
        return Job("paper", "", Stage.EVALUATE, subject, {}, ("rtm.first:main",), (), (output,), LIGHT)

    monkeypatch.setattr(module, "SECONDS", 0.0)
    with kept(measured("x")):
        write_text(measured("x").outputs[0], '{"experiment": "x"}')
    measured("x").outputs[0].unlink()
    measured("x").receipt.unlink()
    assert not served(measured("y")) and served(measured("x"))


def test_short_jobs_are_not_kept() -> None:
    output = Path("galleries/x/seed0.npz")
    job = Job("paper", "", Stage.GALLERY, Subject("x"), {}, ("rtm.first:main",), (), (output,), LIGHT)
    with kept(job):
        write_text(output, "images")
    assert not shelf().entries()


def test_the_store_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    train(training())
    for value in ("off", "asked"):
        monkeypatch.setenv(module.SWITCH, value)
        assert not served(training("y"))


def test_what_is_replaced_is_kept() -> None:
    train(training(lr=1), "first")
    train(training(lr=2), "second")
    for md5 in {md5 for entry in shelf().entries() for md5 in entry.md5s}:
        shelf().object(md5).chmod(0o644)
    second = next(entry for entry in shelf().entries() if entry.receipt["parts"]["params"] == {"lr": 2})
    (shelf().index / second.file).unlink()  # as if it is older than the store
    assert served(training(lr=1)) and served(training(lr=2))
    assert training(lr=2).outputs[0].read_text() == "second"


def test_a_wrong_receipt_of_other_bytes_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of a training give different bytes. Absent weights come back with the bytes of the recorded run."""
    train(training(), "one run")
    first = training().receipt.read_text()
    for path in (*training().outputs, training().receipt):
        path.unlink()
    monkeypatch.setenv(module.SWITCH, "asked")
    train(training(), "another run")
    monkeypatch.delenv(module.SWITCH)
    training().outputs[0].unlink()
    training().receipt.write_text(first)
    assert served(training()) and training().outputs[0].read_text() == "one run"
    assert training().receipt.read_text() == first


# bytes


def test_damaged_objects_and_entries_are_not_used(capsys: pytest.CaptureFixture[str]) -> None:
    train(training())
    (entry,) = shelf().entries()
    for path in (*training().outputs, training().receipt):
        path.unlink()
    damaged = shelf().object(digest_of("weights"))
    damaged.chmod(0o644)
    damaged.write_text("thgiewS"[:7])
    assert not served(training("y")) and "is damaged" in capsys.readouterr().err
    assert not damaged.exists() and not Path("checkpoints/y/seed0.safetensors").exists()
    index = shelf().index / entry.file
    index.write_text(index.read_text().replace('"size": 7', '"size": 8'))
    assert shelf().entries() == []


def test_an_entry_cannot_name_files_elsewhere() -> None:
    train(training())
    (entry,) = shelf().entries()
    role = next(iter(entry.files))
    evil = replace(entry, files={**entry.files, role: {"md5": "../../../etc/passwd", "size": 1}})
    with pytest.raises(ValueError, match="not an entry"):
        Entry.of(evil.text(), evil.file)


def test_large_files_share_their_space_and_small_ones_do_not(tmp_path: Path) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(os.urandom(module.LINKED))
    small.write_text("small")
    for path in (large, small):
        place(path, tmp_path / f"cache/{path.name}", protected=True)
        assert (tmp_path / f"cache/{path.name}").read_bytes() == path.read_bytes()
    shared = (tmp_path / "cache/large").samefile(large)
    assert not (tmp_path / "cache/small").samefile(small)
    assert not shared or large.stat().st_mode & 0o222 == 0  # a hard link is protected under both names
    before = large.read_bytes()
    write_text(large, "what a job writes next")
    assert (tmp_path / "cache/large").read_bytes() == before
