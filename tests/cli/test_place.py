"""Commands work below the root of the repository, and file names are relative to the user's folder."""

import os
from pathlib import Path

import pytest

from rtm.cli.place import CALLED_FROM, given_path, given_target, go_to_root


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("params/scales.yaml", "demo/reports/tab.tex", "images/a.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv(CALLED_FROM, "")  # so that monkeypatch restores it after the test
    monkeypatch.delenv(CALLED_FROM)
    monkeypatch.chdir(tmp_path / "demo/reports")
    return tmp_path


def test_files_stay_relative_to_the_user(repository: Path) -> None:
    go_to_root()
    assert Path.cwd() == repository
    assert os.environ[CALLED_FROM] == str(repository / "demo/reports")
    assert given_path("tab.tex") == Path("demo/reports/tab.tex")
    assert given_path("../../images") == Path("images")
    assert given_path("/somewhere/else") == Path("/somewhere/else")


def test_a_target_may_be_a_file_here_or_a_name_from_the_root(repository: Path) -> None:
    go_to_root()
    assert given_target("tab.tex") == "demo/reports/tab.tex"
    assert given_target("../tables") == "demo/tables"
    for name in ("demo/reports/tab.tex", "train/digits_rtm", "check"):
        assert given_target(name) == name


def test_in_the_root_nothing_changes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    go_to_root()
    assert CALLED_FROM not in os.environ
    assert given_path("images/a.png") == Path("images/a.png")
