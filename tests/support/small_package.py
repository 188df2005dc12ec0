"""Places where small jobs run: a folder or a repository with a cache, with a small package in place of rtm/."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_jobs import CODE
from support.workspace import git

from rtm.core.files import write_text
from rtm.lineage import cache, code
from rtm.lineage.code import present
from rtm.lineage.earlier import SWITCH


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small package in place of rtm/, in a folder of its own."""
    for name, text in CODE.items():
        write_text(tmp_path / f"here/rtm/{name}.py", text)
    monkeypatch.setattr(code, "PACKAGE", tmp_path / "here/rtm")
    monkeypatch.chdir(tmp_path / "here")
    _forget()
    yield tmp_path / "here/rtm"
    _forget()


@pytest.fixture
def repository(package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same in a DVC repository whose remote is a folder."""
    write_text(Path(".dvc/config"), "[core]\n    remote = far\n['remote \"far\"']\n    url = ../../far\n")
    monkeypatch.setenv("HOME", str(package.parents[1]))
    monkeypatch.setenv(SWITCH, "")  # it is as before when the test ends
    monkeypatch.delenv(SWITCH)
    git("init", "-q", "-b", "main")
    cache.folder.cache_clear()
    return package.parent


def _forget() -> None:
    present.cache_clear()
    cache.folder.cache_clear()
    cache.remote.cache_clear()
