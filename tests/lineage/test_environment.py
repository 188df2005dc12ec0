"""The commit in a receipt."""

from pathlib import Path

import pytest
from support.workspace import git

from rtm.lineage.environment import revision


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name in ("rtm/reports/table.py", "params/desk.yaml", "desk/results/metrics.json", "dvc.lock"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1", "utf-8")
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "all")
    return git("rev-parse", "HEAD")


@pytest.mark.parametrize("written", ["desk/results/metrics.json", "dvc.lock", "desk/results/new.json"])
def test_what_the_pipeline_writes_leaves_the_commit_clean(commit: str, written: str) -> None:
    Path(written).write_text("2", encoding="utf-8")
    assert revision() == commit


@pytest.mark.parametrize("changed", ["rtm/reports/table.py", "params/desk.yaml", "my_mapper.py"])
def test_changed_and_new_code_is_marked(commit: str, changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(changed).write_text("2", encoding="utf-8")
    assert revision() == f"{commit}-dirty"
    monkeypatch.chdir("desk")
    assert revision() == f"{commit}-dirty"


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert revision() is None
