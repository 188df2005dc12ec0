"""The real command `rtm` runs the code of the current folder, even if the environment imports other code."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from support import ROOT, tool_server, workspace

pytestmark = pytest.mark.slow(seconds=10)
OTHERWISE = ('"higher": " ↑"', '"higher": " ^"')  # a code change that is visible in a table
TABLE = "demo/reports/tab_digits.md"
COMMAND = "rtm table tab_digits --scale demo --available"
STAGE = {"cmd": COMMAND, "deps": ["rtm"], "outs": [TABLE]}


def run(folder: Path, *command: str) -> str:
    """Run a command of this environment, where `rtm` belongs to another checkout."""
    paths = [folder.parent / "bin", Path(sys.executable).parent, os.environ["PATH"]]
    given = {
        **os.environ,
        "PATH": ":".join(map(str, paths)),
        "HOME": str(folder.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    for name in ("PYTHONPATH", "RTM_CODE"):
        given.pop(name, None)
    return workspace.run(folder, *command, given=given)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A second checkout."""
    folder = tmp_path / "clone"
    for part in ("rtm", "params"):
        shutil.copytree(ROOT / part, folder / part)
    return folder


@pytest.fixture
def recorded(clone: Path) -> Iterator[Path]:
    """The second checkout, with a table as a stage of DVC."""
    (clone / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"table": STAGE}}), "utf-8")
    (clone / ".gitignore").write_text("/lineage/\n/.snakemake/\n/demo/reports/tab_digits.*\n", "utf-8")
    (clone.parent / "bin").mkdir()
    tool_server.write_client(clone.parent / "bin/dvc")
    with tool_server.tools("dvc"):
        run(clone, "git", "init", "-q", "-b", "main")
        run(clone, "dvc", "init", "-q")
        run(clone, "git", "add", "-A")
        run(clone, "git", "commit", "-q", "-m", "start")
        yield clone


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "rtm/reports/tables.py"
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def arrow(folder: Path) -> str:
    """The sign in the table for metrics where higher is better."""
    table = (folder / TABLE).read_text("utf-8")
    (mark,) = (mark for mark in "↑^" if mark in table)
    return mark


def test_a_second_clone_runs_its_own_code(clone: Path) -> None:
    change(clone, *OTHERWISE)
    run(clone, *COMMAND.split())
    assert arrow(clone) == "^"


def test_a_queued_experiment_runs_the_code_that_was_queued(recorded: Path) -> None:
    """The working tree is changed, queued and restored. The result comes from the changed code."""
    run(recorded, "dvc", "repro", "-q")
    run(recorded, "git", "add", "-A")
    run(recorded, "git", "commit", "-q", "-m", "a table")
    change(recorded, *OTHERWISE)
    run(recorded, "dvc", "exp", "run", "-q", "--queue", "-n", "otherwise")
    change(recorded, *reversed(OTHERWISE))
    run(recorded, "dvc", "queue", "start")
    run(recorded, "dvc", "queue", "logs", "otherwise", "-f")
    assert arrow(recorded) == "↑"
    run(recorded, "dvc", "exp", "apply", "-q", "otherwise")
    assert arrow(recorded) == "^"
    assert OTHERWISE[1] in (recorded / "rtm/reports/tables.py").read_text("utf-8")
