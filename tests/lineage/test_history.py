"""What git knows: the files behind a job that changed since its receipt, and all versions of a file."""

from pathlib import Path

import pytest
from support.small_jobs import edit, job, make, why
from support.workspace import git

from rtm.core.files import write_text
from rtm.lineage.history import committed_versions

pytestmark = pytest.mark.usefixtures("repository")


def commit() -> str:
    git("add", "-A", "rtm")
    git("commit", "-q", "-m", "code")
    return git("rev-parse", "HEAD")


def test_changed_files_are_named(package: Path) -> None:
    revision = commit()[:12]
    make(job("train"))
    edit(package, "third", "return 2", "return 3")
    edit(package, "second", "LIMIT = 3", "LIMIT = 3  # a comment")
    edit(package, "cli", "return 1", "return 2")
    assert why(job("train")) == [f"code of rtm/third.py changed: `git diff {revision} -- rtm/third.py`"]


def test_a_module_that_is_new_is_named(package: Path) -> None:
    commit()
    make(job("train"))
    write_text(package / "fourth.py", "def more():\n    return 1\n")
    git("add", "--intent-to-add", "rtm/fourth.py")
    edit(package, "first", "from rtm import third\n", "from rtm import fourth\n")
    (reason,) = why(job("train"))
    assert reason.startswith("code of rtm/first.py, rtm/fourth.py changed: ")


def test_code_that_git_does_not_have_is_named_by_commit(package: Path) -> None:
    make(job("train"))
    edit(package, "third", "return 2", "return 3")
    assert why(job("train")) == ["its code changed; git has no commit of it to say where"]


def test_code_that_was_never_committed_is_told(package: Path) -> None:
    revision = commit()
    edit(package, "third", "return 2", "return 5")
    make(job("train"))
    edit(package, "third", "return 5", "return 2")
    assert why(job("train")) == [f"its code was changed after commit {revision[:12]}, and never committed"]


def test_all_versions_of_a_file_are_found_in_all_branches() -> None:
    path = "lineage/train/x.json"
    for text, branch in (("one", "main"), ("two", "other"), ("three", "third")):
        git("checkout", "-q", "-B", branch)
        write_text(path, text)
        git("add", "lineage")
        git("commit", "-q", "-m", text)
    git("rm", "-q", path)
    git("commit", "-q", "-m", "gone")
    assert sorted(committed_versions(path)) == [b"one", b"three", b"two"]
    assert sorted(committed_versions(":(glob)**/lineage/train/**")) == [b"one", b"three", b"two"]
    assert committed_versions("nowhere") == []
