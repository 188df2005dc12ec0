"""The complete `rtm train`, in a separate folder with or without earlier runs."""

import errno
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from support import PARAMS, smoke_workspace
from support.workspace import copied, environment

from rtm.cli.forkserver import running
from rtm.cli.lineage import accept
from rtm.config import Config, load
from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.core.files import read_json
from rtm.lineage.fingerprint import Code, present
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger, State
from rtm.pipeline.graph import jobs
from rtm.pipeline.runs import log_rows
from rtm.training.launch import on_fewer, train_experiment

NAME, METHOD = "shells_imle_rtm", "rtm.methods.imle.method"


@pytest.fixture
def smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    config = load("smoke", PARAMS)
    smoke_workspace.fetch(config, "shells")
    return config


def train(config: Config) -> None:
    train_experiment(config, config.layout, config.experiment(NAME), 0)


def job(config: Config) -> Job:
    return jobs(config)[f"train/{NAME}/seed0"]


def test_a_finished_training_does_not_start_again(smoke: Config, capsys: pytest.CaptureFixture[str]) -> None:
    train(smoke)
    shutil.rmtree("smoke/runs")
    capsys.readouterr()
    train(smoke)
    assert capsys.readouterr().out == f"smoke/train/{NAME}/seed0 is finished; there is nothing to do.\n"
    assert not Path("smoke/runs").exists() and Ledger().state(job(smoke)) is State.FRESH


def test_fewer_gpus_accumulate_what_the_others_would_have_done(
    smoke: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This tests the message and the receipt. The tests of several processes show that the results stay the same."""
    monkeypatch.setattr("rtm.training.launch.check_devices", lambda *_: False)  # train on the CPU
    chosen = smoke.experiment(NAME)
    asking = chosen.recipe.resources.model_copy(update={"gpus": 4, "hours": 140.0})
    asking_for_four = replace(chosen, recipe=chosen.recipe.model_copy(update={"resources": asking}))
    train_experiment(smoke, smoke.layout, asking_for_four, 0, gpus=1)
    assert f"{NAME} asks for 4 h100 GPUs for about 140 hours; on 1 it takes about 560." in capsys.readouterr().err
    made = read_json(job(smoke).receipt)["made"]
    assert (made["gpus"], made["accumulated"]) == (1, 4) and Ledger().state(job(smoke)) is State.FRESH


def test_the_most_gpus_that_share_a_batch_evenly_are_used(smoke: Config) -> None:
    asked = Resources(gpus=4, cpus=32, mem_gb=128, hours=140)
    assert asked.at_most(3) == Resources(gpus=2, cpus=16, mem_gb=64, hours=280)
    assert asked.at_most(4) == asked.at_most(9) == asked
    paper = load("paper", PARAMS).experiment("cifar10_imle_rtm")
    assert on_fewer(paper, 1).recipe.training.accumulate == 4 and on_fewer(paper, 8) == paper
    with pytest.raises(UserError, match=r"--gpus is 0; give at least 1"):
        on_fewer(paper, 0)
    with pytest.raises(UserError, match=rf"{NAME} trains on the CPU; leave --gpus out"):
        on_fewer(smoke.experiment(NAME), 1)


@pytest.mark.slow(seconds=20)
def test_two_nodes_train_as_one_with_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`srun` starts the command once on each node; here both nodes are this machine, and gloo connects them."""
    scales = copied(tmp_path) / "params/scales.yaml"
    scales.write_text(scales.read_text().replace("{gpus: 0, cpus: 1,", "{gpus: 0, processes: 2, cpus: 1,"))
    monkeypatch.chdir(tmp_path)
    config = load("smoke", tmp_path / "params")
    smoke_workspace.fetch(config, "shells")
    weights = []
    with running(environment(tmp_path), tmp_path) as given:
        for nodes in (1, 2):
            _train(given, nodes)
            weights.append(load_file(config.layout.checkpoint(NAME, 0)))
            for made in ("runs", "checkpoints", "lineage/train"):
                shutil.rmtree(f"smoke/{made}")
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def _train(given: dict[str, str], nodes: int) -> None:
    """Train by one command on each node, with the variables that SLURM sets."""
    command = [sys.executable, "-m", "rtm", "train", NAME, "--scale", "smoke"]
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NUM_NODES": str(nodes)}
    address = {"SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1", "SLURMD_NODENAME": "127.0.0.1"}
    each_node = [{**given, **job, **address, "SLURM_NODEID": str(node)} for node in range(nodes)]
    processes = [subprocess.Popen(command, env=each, stderr=subprocess.PIPE, text=True) for each in each_node]
    for each in processes:
        _, said = each.communicate(timeout=600)
        assert each.returncode == 0, said[-3000:]


def test_a_full_disk_is_an_error(smoke: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"The disk of smoke/runs/.* is full; free some space there"):
        train(smoke)


def test_an_unfinished_training_is_reported_and_resumed(
    smoke: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def begin() -> str:
        """Start the training, stop it at its first check, and return the messages."""
        capsys.readouterr()
        with monkeypatch.context() as patch, pytest.raises(SystemExit):
            patch.setattr("rtm.training.loop.listen", lambda stop: stop())
            train(smoke)
        return capsys.readouterr().err

    def written_otherwise(how: str) -> None:
        sources = dict(present().sources)
        changed = sources[METHOD].replace("class ImleMethod(", f"@print({how!r})\nclass ImleMethod(")
        sources[METHOD] = changed
        code = Code(sources, present().files)
        monkeypatch.setattr("rtm.lineage.receipts.present", lambda: code)

    assert "unfinished" not in begin()
    (first,) = Path(f"smoke/runs/{NAME}").iterdir()
    written_otherwise("written otherwise")
    accept([job(smoke)], "a local name")
    (second,) = Path(f"smoke/runs/{NAME}").iterdir()
    assert second != first and f"goes on from {second}" in capsys.readouterr().out
    train(smoke)
    assert read_json(job(smoke).receipt)["made"]["accepted"][0]["changes"] == [
        "code of rtm.methods.imle.method:ImleMethod changed"
    ]
    steps = [row["step"] for row in log_rows(second / "log.jsonl")]
    assert steps == sorted(set(steps))  # it resumed and repeated no step

    job(smoke).outputs[0].unlink()
    job(smoke).receipt.unlink()
    shutil.rmtree(second)
    begin()
    written_otherwise("another sum")
    messages = begin()
    assert f"{second} holds an unfinished training of this seed at step 1, which is not resumed because" in messages
    assert "code of rtm.methods.imle.method:ImleMethod changed. After a refactoring" in messages
