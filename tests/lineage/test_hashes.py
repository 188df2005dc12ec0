"""Hashes of files are remembered. A damaged memory, or one that cannot be saved, does no harm."""

from pathlib import Path

import pytest
from support.small_jobs import job, make, state

from rtm.core.files import digest, write_json, write_text
from rtm.core.readers import read_json
from rtm.lineage import hashes
from rtm.lineage.freshness import State
from rtm.lineage.hashes import Hashes

pytestmark = pytest.mark.usefixtures("package")


def test_hashes_that_cannot_be_saved_fail_no_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashes, "HASHES", Path("in_the_way/md5.json"))
    Path("in_the_way").touch()
    make(job("train"))
    assert state(job("train")) is State.FRESH


def remembered() -> dict[str, dict[str, str]]:
    """Write a file `x` and remember its hash; the memory."""
    write_text("x", "text")
    first = Hashes()
    assert first.described(Path("x")) == {"md5": digest("x", "md5"), "size": 4}
    first.save()
    known: dict[str, dict[str, str]] = read_json(hashes.HASHES)
    return known


def test_a_file_is_read_once_and_again_when_it_changed() -> None:
    known = remembered()
    known["x"]["md5"] = "from the memory"
    write_json(hashes.HASHES, known)
    assert Hashes().described(Path("x")) == {"md5": "from the memory", "size": 4}
    write_text("x", "TEXT")  # the same size as before
    assert Hashes().described(Path("x")) == {"md5": digest("x", "md5"), "size": 4}


def test_a_file_of_another_size_than_wanted_is_not_read() -> None:
    write_text("x", "text")
    memory = Hashes()
    md5 = digest("x", "md5")
    assert memory.described(Path("x"), like={"md5": md5, "size": 5})["md5"] != md5
    assert not memory.new
    assert memory.described(Path("x"), like={"md5": md5, "size": 4}) == {"md5": md5, "size": 4}


@pytest.mark.parametrize("text", ["", "[]", '{"x": {"md5": "a"', '{"x": {"md5": 3}}', '{"x": {"other": "a"}}'])
def test_a_damaged_memory_is_none(text: str) -> None:
    remembered()
    hashes.HASHES.write_text(text, "utf-8")
    assert Hashes().described(Path("x"))["md5"] == digest("x", "md5")
