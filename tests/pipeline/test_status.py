"""The state of every training: from run folders, locks, receipts and SLURM's queue."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from support import ROOT, smoke_workspace
from support.workspace import environment

from rtm.config import load
from rtm.core.readers import read_json
from rtm.lineage.recording import run
from rtm.pipeline import status
from rtm.pipeline.slurm import Queued, comment
from rtm.pipeline.status import RunStatus, statuses
from rtm.stages.train import Train
from rtm.training.folder import Stopped, history_of, locked

pytestmark = pytest.mark.slow(seconds=3)
NAME = "shells_imle_rtm"
RECEIPT = Path(f"smoke/lineage/train/{NAME}/seed0.json")
HOLD = """
import sys
from pathlib import Path
from rtm.training.folder import locked
with locked(Path(sys.argv[1]), sys.argv[2], 0, 4):
    print(flush=True)
    input()
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace where one experiment of the smoke scale is trained."""
    folder = tmp_path_factory.mktemp("status")
    shutil.copytree(ROOT / "params", folder / "params")
    with chdir(folder):
        config = load("smoke")
        smoke_workspace.fetch(config, "shells")
        run(Train().job(config, experiment=NAME, seed=0))
    return folder


@pytest.fixture(autouse=True)
def _there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)


@pytest.fixture
def unsigned(trained: Path) -> Iterator[Path]:
    """The training without its receipt; the folder of its run, as it was afterwards."""
    receipt = RECEIPT.read_text("utf-8")
    (folder,) = Path(f"smoke/runs/{NAME}").iterdir()
    history = (folder / "run.json").read_text("utf-8")
    RECEIPT.unlink()
    yield folder
    (folder / "run.json").write_text(history, "utf-8")
    RECEIPT.write_text(receipt, "utf-8")


def of(name: str) -> RunStatus:
    return next(each for each in statuses(load("smoke")) if each.experiment == name)


def test_a_finished_training() -> None:
    done = of(NAME)
    assert (done.state, done.step, done.remaining) == ("done", done.total, 0)
    assert done.losses["loss"] > 0
    assert done.log
    assert done.log.exists()
    made = read_json(RECEIPT)["made"]
    assert (made["gpus"], made["gpu_hours"], made["slices"]) == (0, 0, 1)
    assert made["host"] == done.host


def test_other_weights_than_the_recorded_ones() -> None:
    checkpoint = Path(f"smoke/checkpoints/{NAME}/seed0.safetensors")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-1])
    assert of(NAME).state == "changed"
    checkpoint.write_bytes(whole)
    assert of(NAME).state == "done"


def test_a_training_that_never_began() -> None:
    waiting = of("shells_imle_mlp")
    assert (waiting.state, waiting.step, waiting.log, waiting.job) == ("waiting", 0, None, None)


@pytest.mark.parametrize(
    ("reported", "state", "reason"), [("RUNNING", "running", ""), ("PENDING", "waiting", "Priority")]
)
def test_what_slurm_says(monkeypatch: pytest.MonkeyPatch, reported: str, state: str, reason: str) -> None:
    queued = Queued(
        "7",
        reported,
        comment(Train().job(load("smoke"), experiment="shells_imle_mlp", seed=0)),
        "",
        "",
        reason or "None",
    )
    monkeypatch.setattr(status, "waiting_jobs", lambda: [queued])
    found = of("shells_imle_mlp")
    assert (found.state, found.job, found.reason) == (state, "7", reason)


def test_running_stopped_and_killed(unsigned: Path) -> None:
    with pytest.raises(Stopped), locked(unsigned, NAME, 0, gpus=4):
        raise Stopped
    assert of(NAME).state == "waiting"
    command = [sys.executable, "-c", HOLD, str(unsigned), NAME]
    pipe = subprocess.PIPE
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment(ROOT))
    assert holder.stdout
    assert holder.stdout.readline()
    assert of(NAME).state == "running"
    holder.kill()
    holder.communicate()
    assert of(NAME).state == "failed"
    with locked(unsigned, NAME, 0, gpus=4):
        pass
    history = history_of(unsigned)
    assert history
    assert [each.ended for each in history.slices] == ["done", "stopped", "killed", "done"]


def row(step: int, seconds: float) -> dict[str, float]:
    return {"step": step, "seconds": seconds}


@pytest.mark.parametrize(
    ("rows", "speed"),
    [
        ([], None),
        ([row(1, 0.0)], None),
        ([row(1, 0.0), row(21, 10.0)], 2.0),
        ([row(1, 0.0), row(21, 1.0), row(11, 50.0), row(21, 60.0)], 1.0),  # resumed at step 10
    ],
)
def test_the_speed_is_that_since_the_last_resumption(rows: list[dict[str, float]], speed: float | None) -> None:
    assert status._speed(rows) == speed
