"""Places where small jobs run: a folder or a repository with a store, with a small package in place of rtm/."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_jobs import CODE, forget

from rtm.core.files import write_text
from rtm.lineage import fingerprint
from rtm.lineage.fingerprint import present
from rtm.lineage.store import SWITCH


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small package in place of rtm/, in a separate folder."""
    folder = tmp_path / "rtm"
    folder.mkdir()
    for name, text in CODE.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.setattr(fingerprint, "PACKAGE", folder)
    monkeypatch.chdir(tmp_path)
    forget()
    yield folder
    forget()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A small package in place of rtm/, in a DVC repository whose remote is a folder."""
    folder = tmp_path / "here"
    write_text(folder / "rtm/first.py", "def main():\n    return 1\n")
    write_text(folder / ".dvc/config", "[core]\n    remote = far\n['remote \"far\"']\n    url = ../../far\n")
    monkeypatch.setattr(fingerprint, "PACKAGE", folder / "rtm")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.chdir(folder)
    subprocess.run(["git", "init", "-q", "-b", "main"], check=True)
    present.cache_clear()
    yield folder
    present.cache_clear()
