"""A mark is newer than all files, also than those of a wrong clock."""

import os
import time
from pathlib import Path

import pytest

from rtm.pipeline.marks import FOLDER, Mark


def test_a_mark_is_newer_than_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = Path("old")
    future = Path("future")
    old.touch()
    future.touch()
    later = time.time() + 3600
    os.utime(future, (later, later))
    before = old.stat().st_mtime_ns
    mark = Mark()
    path = Path(mark.newer_than([future, Path("absent")]))
    assert path.parent == FOLDER
    assert future.stat().st_mtime < path.stat().st_mtime
    assert mark.newer_than([]) == str(path)
    assert old.stat().st_mtime_ns == before
    assert Mark().newer_than([]) != str(path)
