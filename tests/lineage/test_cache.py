"""DVC's cache: what is kept, damaged objects, and links that save space but protect the bytes."""

import os
from pathlib import Path

import pytest
from support.small_jobs import job, make, train, training

from rtm.core.files import digest, write_text
from rtm.lineage import cache
from rtm.lineage.cache import place

pytestmark = pytest.mark.usefixtures("repository")


def recorded(text: str) -> dict[str, object]:
    """How a receipt describes a file with this text."""
    write_text(Path("text"), text)
    return {"md5": digest(Path("text"), "md5"), "size": len(text)}


def test_trainings_are_kept_at_once() -> None:
    train(training(), "weights")
    assert cache.is_sound(recorded("weights"))
    assert not cache.holds(recorded("others!"))


def test_long_jobs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "SECONDS", 0.0)
    for stage in ("gallery", "table"):
        made = job(stage)
        make(made, stage)
        cache.keep(made)
    assert cache.holds(recorded("gallery"))
    assert not cache.holds(recorded("table"))


def test_short_jobs_are_not_kept() -> None:
    make(job("gallery"), "images")
    cache.keep(job("gallery"))
    assert not cache.holds(recorded("images"))


def test_a_damaged_object_is_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    train(training(), "weights")
    path = cache.object_of(recorded("weights"))
    path.chmod(0o644)
    path.write_text("thgiew!", "utf-8")
    assert cache.holds(recorded("weights"))
    assert not cache.is_sound(recorded("weights"))
    assert "is damaged: it is deleted" in capsys.readouterr().err
    assert not path.exists()


def test_a_cache_that_fails_fails_no_job() -> None:
    make(training(), "weights")
    write_text(Path(".dvc/cache"), "in the way")
    cache.keep(training())
    cache.remember({"a": "receipt"})
    assert training().receipt.exists()


def test_a_cache_may_be_elsewhere(tmp_path: Path) -> None:
    with open(".dvc/config", "a", encoding="utf-8") as file:
        file.write(f"[cache]\n    dir = {tmp_path}/shared\n")
    cache.folder.cache_clear()
    train(training(), "weights")
    assert list((tmp_path / "shared/files/md5").rglob("??/*"))


def test_large_files_share_their_space_and_small_ones_do_not(tmp_path: Path) -> None:
    large = tmp_path / "large"
    small = tmp_path / "small"
    large.write_bytes(os.urandom(cache.LINKED))
    small.write_text("small", "utf-8")
    for path in (large, small):
        place(path, tmp_path / f"cache/{path.name}", protected=True)
        assert (tmp_path / f"cache/{path.name}").read_bytes() == path.read_bytes()
    shared = (tmp_path / "cache/large").samefile(large)
    assert not (tmp_path / "cache/small").samefile(small)
    assert not shared or large.stat().st_mode & 0o222 == 0  # a hard link is protected under both names
    before = large.read_bytes()
    write_text(large, "what a job writes next")
    assert (tmp_path / "cache/large").read_bytes() == before


def test_a_remote_that_fails_is_asked_once(capsys: pytest.CaptureFixture[str]) -> None:
    remote = cache.Remote("unknown")
    recorded = {"md5": "0" * 32, "size": 1}
    assert not remote.has(recorded)
    remote.get(recorded)
    assert capsys.readouterr().err.count("The DVC remote is not asked for results:") == 1
