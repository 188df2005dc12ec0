"""A DVC remote brings results back. Damaged results are not used, and a silent remote is left alone."""

import subprocess
from pathlib import Path

import pytest
from support.small_jobs import digest_of, shelf, train, training

from rtm.lineage import remote
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.store import Store, served

pytestmark = pytest.mark.usefixtures("repository")


def push(job: Job) -> None:
    opened, (entry,) = Store(Ledger()), shelf().entries()
    for md5 in entry.md5s:
        assert opened.remote.put(shelf().object(md5), f"{remote.OBJECTS}/{md5[:2]}/{md5[2:]}")
    assert opened.remote.put(shelf().code / f"{entry.code}.json", f"{remote.CODE}/{entry.code}.json")
    assert opened.remote.put(shelf().index / entry.file, f"{remote.INDEX}/{entry.file}")
    assert not opened.remote.put(shelf().index / entry.file, f"{remote.INDEX}/{entry.file}")


def test_a_remote_brings_back_what_is_right_alone(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(training())
    push(training())
    for folder in ("checkpoints", "results", "lineage", ".dvc/cache"):
        subprocess.run(["rm", "-rf", folder], check=True)
    assert served(training("y")) and Path("checkpoints/y/seed0.safetensors").read_text() == "weights"
    for folder in ("checkpoints", "results", "lineage", ".dvc/cache"):
        subprocess.run(["rm", "-rf", folder], check=True)
    md5 = digest_of("weights")
    damaged = repository.parent / "far/files/md5" / md5[:2] / md5[2:]
    damaged.chmod(0o644)
    damaged.write_text("thgiew!")
    assert not served(training("y")) and "is damaged" in capsys.readouterr().err


def test_a_remote_that_hangs_is_left_alone(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import threading

    never = threading.Event()
    monkeypatch.setattr(remote, "PATIENCE", 0.05)
    asked = remote.Remote()
    monkeypatch.setattr(asked, "_list", never.wait)
    assert asked.files == [] and asked.text("entry") is None and asked.graph("0" * 16) is None
    never.set()
    assert capsys.readouterr().err.count("The DVC remote is not asked for results: TimeoutError") == 1
