"""Both tools on one real training: killed anywhere, it goes on and comes out bit-equal; two at once are refused."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
from support import ROOT, smoke_workspace
from support.waiting import tail, wait_for, wait_for_end
from support.workspace import copied, environment, run

from rtm.config import load

pytestmark = pytest.mark.slow(seconds=50)
TARGET = "demo/checkpoints/digits_rtm/seed0.safetensors"
SNAKEMAKE = ("snakemake", "--cores", "1", "--", TARGET)
DVC = ("dvc", "repro", "demo_train@digits_rtm")


def without_store(folder: Path) -> dict[str, str]:
    """Each training is a training: what was finished before does not come back from the store."""
    return environment(folder) | {"RTM_STORE": "off"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo with one short training, which saves often, under git and DVC."""
    folder = copied(tmp_path_factory.mktemp("kills"))
    for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore", ".gitignore"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    for file, old, new in (
        ("demo", "seeds: [0, 1, 2]", "seeds: [0]"),
        ("recipes", "epochs: 200\n", "epochs: 8\n"),
        ("recipes", "save_every: 1000\n", "save_every: 4\n"),
    ):
        path = folder / f"params/{file}.yaml"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
    run(folder, "git", "init", "-q")
    run(folder, "rtm", "lineage", "dvc", "all")
    with chdir(folder):
        smoke_workspace.fetch(load("demo"))
    run(folder, *SNAKEMAKE, given=without_store(folder))
    return folder


@contextmanager
def started(folder: Path, *command: str) -> Iterator[tuple[subprocess.Popen[bytes], int, Path]]:
    """A command that trains and has saved since it began, the process that trains, and the log."""
    state, log = next(folder.glob("demo/runs/digits_rtm/*")) / "state.pt", folder / f"{command[0]}.log"
    before = saved_at(state)
    with open(log, "wb") as file:
        process = subprocess.Popen(command, cwd=folder, env=without_store(folder), stdout=file, stderr=file)

    def progress() -> str:
        return tail(log) + "".join(map(tail, sorted(folder.glob("demo/logs/train/**/*.log"))))

    def saved() -> bool:
        assert process.poll() is None, log.read_text()
        return saved_at(state) > before

    wait_for(saved, progress)
    yield process, int((state.parent / "lock").read_text().split(":")[1]), log
    wait_for_end(process, lambda: f"{progress()}{saved_at(state)}")


def saved_at(state: Path) -> int:
    return state.stat().st_mtime_ns if state.exists() else 0


def killed(folder: Path, victim: str, *command: str) -> str:
    """Kill a command or its trainer, and whatever of the training outlives it; what it printed."""
    with started(folder, *command) as (process, trainer, log):
        os.kill(trainer if victim == "trainer" else process.pid, signal.SIGKILL)
        if victim != "trainer":
            process.wait()
            os.kill(trainer, signal.SIGKILL)  # it must be there still
    return log.read_text()


def forget(folder: Path) -> Path:
    """Leave nothing of the training; its folder."""
    for made in ("checkpoints", "results", "lineage"):
        shutil.rmtree(folder / "demo" / made)
    (training,) = folder.glob("demo/runs/digits_rtm/*")
    for name in ("state.pt", "state.prev.pt", "log.jsonl"):
        (training / name).unlink()
    return training


def refused(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, env=without_store(folder), capture_output=True, text=True)
    assert done.returncode != 0
    return done.stdout + done.stderr


def test_killed_through_both_tools_and_bit_equal(folder: Path) -> None:
    undisturbed = (folder / TARGET).read_bytes()
    training = forget(folder)
    killed(folder, "dvc", *DVC)
    killed(folder, "snakemake", *SNAKEMAKE)
    assert "Snakemake did not finish demo/train/digits_rtm/seed0" in killed(folder, "trainer", *DVC)
    assert not (folder / TARGET).exists()
    run(folder, *SNAKEMAKE, given=without_store(folder))
    assert (folder / TARGET).read_bytes() == undisturbed
    steps = [json.loads(line)["step"] for line in (training / "log.jsonl").read_text().splitlines()]
    assert steps.count(1) == 1  # never from the start again
    output = run(folder, *DVC, given=without_store(folder))
    assert "rtm lineage run" in output and "rule train" not in output  # recorded, not trained
    assert "Data and pipelines are up to date" in run(folder, "dvc", "status", DVC[-1])


def test_two_at_once_are_refused_and_harm_nothing(folder: Path) -> None:
    undisturbed = (folder / TARGET).read_bytes()
    forget(folder)
    with started(folder, *DVC) as (process, trainer, log):
        os.kill(trainer, signal.SIGSTOP)
        assert "busy" in refused(folder, *DVC)
        assert f":{trainer}; wait for it, or end it first" in refused(folder, *SNAKEMAKE)
        os.kill(trainer, signal.SIGCONT)
    assert process.returncode == 0, log.read_text()
    assert (folder / TARGET).read_bytes() == undisturbed
