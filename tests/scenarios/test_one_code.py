"""`rtm` runs the code of the folder that it is called in, whatever the environment imports: with the real command."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from support import ROOT

pytestmark = pytest.mark.slow(seconds=20)
BRIGHTER = ("255 / 16", "127 / 16")  # of the digits' 17 levels: a change of code that images show
STAGE = {"cmd": "rtm fetch digits --scale demo", "deps": ["rtm"], "outs": ["data/digits"]}


def run(folder: Path, *command: str) -> str:
    """With this environment's commands, whose `rtm` belongs to another checkout."""
    known = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "RTM_CODE")}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    home = {"HOME": str(folder.parent), "PATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    names = {f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    done = subprocess.run(command, cwd=folder, env=known | home | names, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A second checkout with the digits as a stage of DVC."""
    folder = tmp_path / "clone"
    for part in ("rtm", "params"):
        shutil.copytree(ROOT / part, folder / part)
    datasets = folder / "params/datasets.yaml"
    datasets.write_text(re.sub(r"\n    sha256: .*", "", datasets.read_text(), count=1))  # code will change the digits
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"digits": STAGE}}))
    (folder / ".gitignore").write_text("/lineage/\n/.snakemake/\n")
    run(folder, "git", "init", "-q", "-b", "main")
    run(folder, "dvc", "init", "-q")
    run(folder, "git", "add", "-A")
    run(folder, "git", "commit", "-q", "-m", "start")
    return folder


def change(folder: Path, old: str, new: str) -> None:
    path = folder / "rtm/data/prepare.py"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def brightest(folder: Path) -> int:
    return int(np.load(folder / "data/digits/images.npy").max())


def test_a_second_clone_runs_its_own_code(clone: Path) -> None:
    change(clone, *BRIGHTER)
    run(clone, "rtm", "fetch", "digits", "--scale", "demo")
    assert brightest(clone) == 127


def test_a_queued_experiment_runs_the_code_that_was_queued(clone: Path) -> None:
    """The working tree changes, is queued and is restored: the result is that of the changed code."""
    run(clone, "dvc", "repro", "-q")
    run(clone, "git", "add", "-A")
    run(clone, "git", "commit", "-q", "-m", "digits")
    change(clone, *BRIGHTER)
    run(clone, "dvc", "exp", "run", "-q", "--queue", "-n", "darker")
    change(clone, *reversed(BRIGHTER))
    run(clone, "dvc", "queue", "start")
    run(clone, "dvc", "queue", "logs", "darker", "-f")
    assert brightest(clone) == 255
    run(clone, "dvc", "exp", "apply", "-q", "darker")
    assert brightest(clone) == 127
    assert BRIGHTER[1] in (clone / "rtm/data/prepare.py").read_text()
