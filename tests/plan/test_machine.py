"""Each part of a machine works, or a sentence says how to get it."""

import os
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support import PARAMS
from support.gpus import machine as with_gpus

from rtm.config import load
from rtm.core.files import write_text
from rtm.data.networks import NETWORKS
from rtm.plan import machine
from rtm.plan.machine import Finding
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network

NAME = "cifar10_imle_rtm"
GAN = "cifar10_stylegan2_ada_rtm"
CPU = torch.device("cpu")


def test_the_doctor_does_not_wait_for_slow_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "sinfo", "dvc"):
        (tmp_path / name).write_text("#!/bin/sh\nexec sleep 60\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(machine, "PATIENCE", 0.1)
    for finding in (machine._slurm(), machine._dvc_remote()):
        assert not finding.good
        assert finding.advice


def test_usable_gpus_are_counted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(monkeypatch, 4, usable=True, driver="580.95.05")
    finding = machine._gpu()
    assert finding.good
    assert finding.advice.startswith("4 x H100, torch ")
    with_gpus(monkeypatch, 0, usable=False)
    finding = machine._gpu()
    assert not finding.good
    assert finding.advice.startswith("none; the demo runs on the CPU")


@pytest.mark.parametrize(
    ("driver", "cuda"), [("550.54.15", "13.0"), ("515.1", "12.6"), ("580.95.05", "13.0"), (None, "13.0")]
)
def test_gpus_that_cannot_be_used_do_not_count(driver: str | None, cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(
        monkeypatch,
        4,
        usable=False,
        driver=driver,
        cuda=cuda,
    )
    finding = machine._gpu()
    assert not finding.good
    assert "4 GPUs are here" in finding.advice


def test_a_network_is_here_for_what_its_file_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("paper", PARAMS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").mkdir()
    save_file({"features.0.weight": torch.zeros(1)}, Network().path(config, "weights", network="vgg16"))
    save_file({"Conv2d_1a_3x3.conv.weight": torch.zeros(1)}, Network().path(config, "weights", network="inception"))
    findings = {finding.subject: finding for finding in map(partial(machine._network, config), NETWORKS)}
    assert "LPIPS" in findings["vgg16"].advice
    assert "it lacks the layers behind precision" in findings["vgg16"].advice
    assert (findings["vgg16"].good, findings["inception"].good, findings["dinov2"].good) == (None, None, False)
    advice = {name: finding.advice.partition("it lacks")[0] for name, finding in findings.items()}
    assert "FID, KID and P/R of paper" in advice["inception"]
    assert "FID and KID of rs_imle" in advice["inception"]
    assert "score" not in advice["inception"]
    assert "P/R" not in advice["vgg16"]
    assert "P/R of dinov2" in advice["dinov2"]
    for name in ("vgg16", "dinov2"):
        Network().path(config, "weights", network=name).write_bytes(b"x")
        assert "is damaged" in machine._network(config, name).advice


def test_datasets_that_are_here_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load("smoke", PARAMS)
    assert machine._data(config) == Finding("data", False, "no dataset yet; try `rtm fetch digits --scale smoke`")
    for name in ("shells", "cat"):
        write_text(Dataset().path(config, "images", dataset=name).with_name("meta.json"), "{}")
    assert machine._data(config) == Finding("data", True, "cat, shells")
