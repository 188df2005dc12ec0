"""A complete training, in a separate folder with or without earlier runs."""

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

from rtm.config import Config, Experiment, load
from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.lineage.accepting import accept
from rtm.lineage.freshness import Freshness
from rtm.lineage.recording import run
from rtm.stages.base import Job
from rtm.stages.train import Train
from rtm.training.folder import log_rows
from rtm.training.launch import on_fewer

NAME = "shells_imle_rtm"


@pytest.fixture
def smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.chdir(tmp_path)
    config = load("smoke", PARAMS)
    smoke_workspace.fetch(config, "shells")
    return config


@pytest.fixture
def job(smoke: Config) -> Job:
    return Train().job(smoke, experiment=NAME, seed=0)


def test_a_finished_training_does_not_start_again(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    run(job)
    shutil.rmtree("smoke/runs")
    capsys.readouterr()
    run(job)
    assert capsys.readouterr().out == f"smoke/train/{NAME}/seed0 is finished; there is nothing to do.\n"
    assert not Path("smoke/runs").exists()
    assert Freshness().is_fresh(job)


def asking_for_four_gpus(experiment: Experiment) -> Experiment:
    recipe = experiment.recipe
    resources = recipe.resources.model_copy(update={"gpus": 4, "hours": 140.0})
    return replace(experiment, recipe=recipe.model_copy(update={"resources": resources}))


def test_fewer_gpus_accumulate_what_the_others_would_have_done(
    smoke: Config,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """This tests the message and the receipt. The tests of several processes show that the results stay the same."""
    monkeypatch.setattr("rtm.training.launch.check_devices", lambda *_: False)  # train on the CPU
    monkeypatch.setitem(smoke.experiments, NAME, asking_for_four_gpus(smoke.experiments[NAME]))
    run(job, gpus=1)
    assert f"{NAME} asks for 4 h100 GPUs for about 140 hours; on 1 it takes about 560." in capsys.readouterr().err
    made = read_json(job.receipt)["made"]
    assert (made["gpus"], made["accumulated"]) == (1, 4)
    assert Freshness().is_fresh(job)


def test_the_most_gpus_that_share_a_batch_evenly_are_used(smoke: Config) -> None:
    asked = Resources(gpus=4, cpus=32, mem_gb=128, hours=140)
    assert asked.at_most(3) == Resources(gpus=2, cpus=16, mem_gb=64, hours=280)
    assert asked.at_most(4) == asked.at_most(9) == asked
    paper = load("paper", PARAMS).experiment("cifar10_imle_rtm")
    assert on_fewer(paper, 1).recipe.training.accumulate == 4
    assert on_fewer(paper, 8) == paper
    with pytest.raises(UserError, match=r"--gpus is 0; give at least 1"):
        on_fewer(paper, 0)
    with pytest.raises(UserError, match=rf"{NAME} trains on the CPU; leave --gpus out"):
        on_fewer(smoke.experiment(NAME), 1)


@pytest.mark.slow(seconds=40)
def test_two_nodes_train_as_one_with_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`srun` starts the command once on each node; here both nodes are this machine, and gloo connects them."""
    scales = copied(tmp_path) / "params/scales.yaml"
    one_process = "{gpus: 0, cpus: 1,"
    text = scales.read_text("utf-8")
    assert one_process in text
    scales.write_text(text.replace(one_process, "{gpus: 0, processes: 2, cpus: 1,"), "utf-8")
    monkeypatch.chdir(tmp_path)
    config = load("smoke", tmp_path / "params")
    smoke_workspace.fetch(config, "shells")
    weights = []
    for nodes in (1, 2):
        _train(tmp_path, nodes)
        weights.append(load_file(Train().path(config, "checkpoint", experiment=NAME, seed=0)))
        for made in ("runs", "checkpoints", "lineage/train"):
            shutil.rmtree(f"smoke/{made}")
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def _train(folder: Path, nodes: int) -> None:
    """Train by one command on each node, with the variables that SLURM sets."""
    command = [sys.executable, "-m", "rtm", "train", NAME, "--scale", "smoke"]
    variables = environment(folder) | {
        "SLURM_JOB_ID": str(os.getpid()),
        "SLURM_STEP_NUM_NODES": str(nodes),
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURMD_NODENAME": "127.0.0.1",
        "RTM_CACHE": "off",
    }
    processes = [
        subprocess.Popen(command, env={**variables, "SLURM_NODEID": str(node)}, stderr=subprocess.PIPE, text=True)
        for node in range(nodes)
    ]
    for process in processes:
        _, messages = process.communicate(timeout=600)
        assert process.returncode == 0, messages[-3000:]


def test_a_full_disk_is_an_error(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(UserError, match=r"The disk of smoke/runs/.* is full; free some space there"):
        run(job)


def stop_at_once(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the training, and stop it at its first check."""
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr("rtm.training.loop.listen", lambda stop: stop())
        run(job)


def test_a_training_that_was_begun_with_other_code_goes_on_if_that_is_accepted(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at_once(job, monkeypatch)
    (folder,) = Path(f"smoke/runs/{NAME}").iterdir()
    write_json(folder / "begun.json", {"code": "another", "revision": None})
    with pytest.raises(UserError, match=rf"{folder} holds this training at step 1, begun with other code: .*accept"):
        run(job)
    accept([job], "a local name")
    run(job)
    steps = [row["step"] for row in log_rows(folder / "log.jsonl")]
    assert steps == sorted(set(steps))  # it resumed and repeated no step
    assert Freshness().is_fresh(job)
