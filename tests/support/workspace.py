"""A copy of the repository's files, in which tests can change files and run commands."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from support import ROOT

PARTS = ("Snakefile", "workflow", "profiles", "slurm", "params", "rtm")


def copied(folder: Path) -> Path:
    for name in PARTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True)
        else:
            shutil.copy(source, folder / name)
    return folder


def with_short_classifier(folder: Path) -> Path:
    """Train the digit classifier of this copy for a tenth of its steps, because no test checks its quality."""
    path = folder / "rtm/metrics/digits.py"
    assert "\nSTEPS = 1000\n" in path.read_text("utf-8")
    path.write_text(path.read_text("utf-8").replace("\nSTEPS = 1000\n", "\nSTEPS = 100\n"), "utf-8")
    return folder


def cloned(folder: Path) -> Path:
    """A folder like a clone, but with uncommitted changes: every file that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).rstrip("\0").split("\0"):
        if os.path.lexists(ROOT / name):  # otherwise it was deleted
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
    return folder


def git(*words: str) -> str:
    """The output of git in this folder; commits have an author."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    return subprocess.run(["git", *identity, *words], capture_output=True, text=True, check=True).stdout.strip()


def environment(folder: Path) -> dict[str, str]:
    """The environment in which a command uses the copy's own rtm, on a narrow screen."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "COLUMNS": "80",
    }


def run(folder: Path, *words: str, given: Mapping[str, str] | None = None) -> str:
    """The output of a command."""
    done = subprocess.run(words, cwd=folder, env=given or environment(folder), capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-5000:]
    return done.stdout + done.stderr
