"""`rtm status`: the states from run folders, locks and receipts, in a table for a narrow screen."""

import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from support import ROOT, smoke_workspace
from support.command import rtm
from support.workspace import environment

from rtm.config import load
from rtm.core.files import read_json, write_json
from rtm.pipeline.runs import Stopped, book_of, training
from rtm.reports.status import RunStatus, duration, short, statuses
from rtm.training.launch import train_experiment

pytestmark = pytest.mark.slow(seconds=3)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace where one experiment of the smoke scale is trained."""
    folder = tmp_path_factory.mktemp("status")
    shutil.copytree(ROOT / "params", folder / "params")
    with chdir(folder):
        smoke_workspace.fetch(config := load("smoke"), "shells")
        train_experiment(config, config.layout, config.experiment("shells_imle_rtm"), 0)
    return folder


def found(name: str) -> RunStatus:
    return next(each for each in statuses(load("smoke")) if each.experiment == name)


def runs(name: str) -> Path:
    return next(Path(f"smoke/runs/{name}").iterdir())


def test_a_finished_training(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    status = found("shells_imle_rtm")
    assert status.state == "done" and status.step == status.total and status.remaining == 0
    assert status.losses["loss"] > 0 and status.log and status.log.exists()
    checkpoint = Path("smoke/checkpoints/shells_imle_rtm/seed0.safetensors")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-1])
    assert found("shells_imle_rtm").state == "changed"
    checkpoint.write_bytes(whole)
    assert found("shells_imle_mlp").state == "waiting"
    made = read_json("smoke/lineage/train/shells_imle_rtm/seed0.json")["made"]
    assert made["gpus"] == 0 and made["gpu_hours"] == 0 and made["slices"] == 1 and made["host"] == status.host


def test_running_stopped_and_killed(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    receipt = Path("smoke/lineage/train/shells_imle_rtm/seed0.json")
    whole, folder = receipt.read_text(), runs("shells_imle_rtm")
    receipt.unlink()
    try:
        with pytest.raises(Stopped), training(folder, "shells_imle_rtm", 0, gpus=4):
            raise Stopped
        assert found("shells_imle_rtm").state == "waiting"
        code = "import sys; from pathlib import Path; from rtm.pipeline.runs import training\n"
        code += "with training(Path(sys.argv[1]), 'shells_imle_rtm', 0, 4): print(flush=True); input()"
        holder = subprocess.Popen(
            [sys.executable, "-c", code, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment(ROOT),
        )
        assert holder.stdout and holder.stdout.readline()
        assert found("shells_imle_rtm").state == "running"
        holder.kill()
        holder.communicate()
        assert found("shells_imle_rtm").state == "failed"
        with training(folder, "shells_imle_rtm", 0, gpus=4):
            pass
        book = book_of(folder)
        assert book and [each.ended for each in book.slices] == ["done", "stopped", "killed", "done"]
    finally:
        receipt.write_text(whole)


def test_gpu_hours_are_the_sum_over_slices(tmp_path: Path) -> None:
    with training(tmp_path, "x", 0, gpus=4):
        pass
    book = read_json(tmp_path / "run.json")
    book["slices"] = [{**book["slices"][0], "seconds": 1800.0, "job": job} for job in ("7", "8")]
    write_json(tmp_path / "run.json", book)
    book = book_of(tmp_path)
    assert book and book.facts() == {"gpus": 4, "gpu_hours": 4.0, "slices": 2, "slurm_jobs": ["7", "8"]}


@pytest.mark.parametrize("scale", ["paper", "demo", "smoke"])
def test_the_table_fits(trained: Path, scale: str) -> None:
    answer = rtm("status", "--scale", scale, cwd=trained)
    output = answer.stdout + answer.stderr
    assert answer.returncode == 0 and all(len(line) <= 80 for line in output.splitlines())
    for name in load(scale, trained / "params").experiments:
        assert name in output


def test_numbers_are_short() -> None:
    assert [short(count) for count in (7, 1500, 234_567, 1_171_875)] == ["7", "1.5k", "235k", "1.17M"]
    assert [duration(seconds) for seconds in (7, 310, 12000, 1_050_000)] == ["7s", "5m10s", "3h20m", "12d3h"]
