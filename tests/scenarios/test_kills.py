"""Both tools on one real training. After any kill it continues and gives equal bits; two at a time are refused."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT, smoke_workspace
from support.waiting import tail, wait_for, wait_for_end
from support.workspace import copied, environment, run, with_short_classifier

from rtm.config import load

pytestmark = pytest.mark.slow(seconds=48)
TARGET = "demo/checkpoints/digits_rtm/seed0.safetensors"
SNAKEMAKE = ("snakemake", "--cores", "1", "--", TARGET)
DVC = ("dvc", "repro", "digits_rtm")


def without_cache(folder: Path) -> dict[str, str]:
    """The environment without earlier results, so that every training really runs."""
    return environment(folder) | {"RTM_CACHE": "off", "OMP_NUM_THREADS": "1"}  # as Snakemake sets it for a rule


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo with one short training, which saves often, under git and DVC."""
    folder = with_short_classifier(copied(tmp_path_factory.mktemp("kills")))
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shorten(folder / "params")
    run(folder, "git", "init", "-q")
    with chdir(folder):
        smoke_workspace.fetch(load("demo"), "digits300", "digits_rest")
    return folder


def shorten(params: Path) -> None:
    """One seed, many saves, and few measurements, because no test reads them."""
    recipe = {
        "training": {"epochs": 8, "save_every": 4, "watch": None},
        "evaluation": {"latency_passes": 3, "latency_warmup": 1},
    }
    with changed(params / "recipes.yaml") as recipes:
        for part, values in recipe.items():
            recipes["recipes"]["digits_imle"][part] |= values
    with changed(params / "demo.yaml") as demo:
        demo["demo"]["digits_rtm"] |= {"seeds": [0], "sweep": []}
    with changed(params / "scales.yaml") as scales:
        scales["scales"]["demo"] |= {"tables": ["tab_digits"], "figures": []}


@contextmanager
def changed(path: Path) -> Iterator[Any]:
    """The content of a file of parameters; the changed content is written back."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    yield content
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


@pytest.fixture(scope="module")
def undisturbed(folder: Path) -> bytes:
    """The weights from one training without Snakemake and DVC. All its inputs are recorded in DVC."""
    given = without_cache(folder)
    run(folder, "rtm", "lineage", "dvc", "all", given=given)
    run(folder, "dvc", "repro", "demo_images", given=given)
    run(folder, "rtm", "train", "digits_rtm", "--scale", "demo", given=given)
    return (folder / TARGET).read_bytes()


@contextmanager
def started(folder: Path, given: dict[str, str], *command: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A training command that has already saved, the process that trains, and the log."""
    state = next(folder.glob("demo/runs/digits_rtm/*")) / "state.pt"
    log = folder / f"{command[0]}.log"
    before = saved_at(state)
    with open(log, "wb") as file:
        process = subprocess.Popen(command, cwd=folder, env=given, stdout=file, stderr=file)

    def progress() -> str:
        logs = sorted(folder.glob("demo/logs/train/**/*.log"))
        return "".join(map(tail, [log, *logs]))

    def saved() -> bool:
        assert process.poll() is None, log.read_text("utf-8")
        return saved_at(state) > before

    wait_for(saved, progress)
    _, trainer = (state.parent / "lock").read_text("utf-8").split(":")
    yield process, int(trainer), log
    wait_for_end(process, lambda: f"{progress()}{saved_at(state)}")


def saved_at(state: Path) -> int:
    return state.stat().st_mtime_ns if state.exists() else 0


def killed(folder: Path, victim: str, *command: str) -> str:
    """Kill a command and its training process, or only that process; the output of the command."""
    with started(folder, without_cache(folder), *command) as (process, trainer, log):
        os.kill(trainer if victim == "trainer" else process.pid, signal.SIGKILL)
        if victim != "trainer":
            process.wait()
            os.kill(trainer, signal.SIGKILL)  # it must still run
    return log.read_text("utf-8")


def forget(folder: Path) -> Path:
    """Delete all files of the training; its folder."""
    for made in ("checkpoints", "results", "lineage"):
        shutil.rmtree(folder / "demo" / made)
    (training,) = folder.glob("demo/runs/digits_rtm/*")
    for name in ("state.pt", "state.prev.pt", "log.jsonl"):
        (training / name).unlink()
    return training


def refused(folder: Path, given: dict[str, str], *command: str) -> str:
    done = subprocess.run(command, cwd=folder, env=given, capture_output=True, text=True)
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_killed_through_both_tools_and_bit_equal(folder: Path, undisturbed: bytes) -> None:
    training = forget(folder)
    killed(folder, "dvc", *DVC)
    killed(folder, "snakemake", *SNAKEMAKE)
    assert "failed to reproduce" in killed(folder, "trainer", *DVC)
    assert not (folder / TARGET).exists()
    run(folder, *SNAKEMAKE, given=without_cache(folder))
    assert (folder / TARGET).read_bytes() == undisturbed
    lines = (training / "log.jsonl").read_text("utf-8").splitlines()
    steps = [json.loads(line)["step"] for line in lines]
    assert steps.count(1) == 1  # the training never began again
    output = run(folder, *DVC, given=without_cache(folder))
    assert "rule train" not in output  # recorded, not trained
    assert "Data and pipelines are up to date" in run(folder, "dvc", "status", DVC[-1])


def test_two_at_once_are_refused_and_harm_nothing(folder: Path, undisturbed: bytes) -> None:
    forget(folder)
    with started(folder, without_cache(folder), *DVC) as (process, trainer, log):
        os.kill(trainer, signal.SIGSTOP)
        assert "busy" in refused(folder, without_cache(folder), *DVC)
        assert f":{trainer}; wait for it, or end it first" in refused(folder, without_cache(folder), *SNAKEMAKE)
        os.kill(trainer, signal.SIGCONT)
    assert process.returncode == 0, log.read_text("utf-8")
    assert (folder / TARGET).read_bytes() == undisturbed
