"""`rtm doctor` says for each part whether it works, and how to repair it if it does not."""

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from support import PARAMS
from support.command import rtm
from support.gpus import machine

from rtm.cli import doctor
from rtm.cli.doctor import Finding
from rtm.config import load
from rtm.core.files import write_text


def test_the_doctor_names_what_to_do() -> None:
    answer = rtm("doctor")
    assert answer.returncode == 0
    for subject in ("GPU", "inception", "vgg16", "dinov2", "data", "LaTeX", "SLURM", "DVC"):
        assert subject in answer.stdout


def test_the_doctor_does_not_wait_for_slow_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sbatch", "sinfo", "dvc"):
        (tmp_path / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(doctor, "PATIENCE", 0.1)
    for finding in (doctor._slurm(), doctor._dvc_remote()):
        assert not finding.good and finding.advice


def test_brackets_in_an_advice_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """Messages of libraries contain brackets."""
    doctor.show([Finding("gloo", False, "RuntimeError: [enforce fail at pair.cc] [/tmp/x] refused")])
    assert capsys.readouterr().out == "no   gloo        RuntimeError: [enforce fail at pair.cc] [/tmp/x] refused\n"


def test_usable_gpus_are_counted_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 4, usable=True, driver="580.95.05")
    finding = doctor._gpu()
    assert finding.good and finding.advice.startswith("4 x H100, torch ")
    machine(monkeypatch, 0, usable=False)
    finding = doctor._gpu()
    assert not finding.good and finding.advice.startswith("none; the demo runs on the CPU")


@pytest.mark.parametrize(
    ("driver", "cuda"), [("550.54.15", "13.0"), ("515.1", "12.6"), ("580.95.05", "13.0"), (None, "13.0")]
)
def test_gpus_that_cannot_be_used_do_not_count(driver: str | None, cuda: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 4, usable=False, driver=driver, cuda=cuda)
    finding = doctor._gpu()
    assert not finding.good and "4 GPUs are here" in finding.advice


def test_a_network_is_here_for_what_its_file_can_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("paper", PARAMS)
    layout = config.layout
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights").mkdir()
    save_file({"features.0.weight": torch.zeros(1)}, layout.weights("vgg16"))
    save_file({"Conv2d_1a_3x3.conv.weight": torch.zeros(1)}, layout.weights("inception"))
    findings = {each.subject: each for each in doctor._weights(config)}
    assert "LPIPS" in findings["vgg16"].advice and "it lacks the layers behind precision" in findings["vgg16"].advice
    assert (findings["vgg16"].good, findings["inception"].good, findings["dinov2"].good) == (None, None, False)
    advice = {name: found.advice.partition("it lacks")[0] for name, found in findings.items()}
    assert "FID, KID and P/R of paper" in advice["inception"] and "FID and KID of rs_imle" in advice["inception"]
    assert "score" not in advice["inception"] and "P/R" not in advice["vgg16"]
    assert "P/R of dinov2" in advice["dinov2"]
    for name in ("vgg16", "dinov2"):
        layout.weights(name).write_bytes(b"x")
        assert "is damaged" in doctor._network(config, name).advice


def test_datasets_that_are_here_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = load("smoke", PARAMS)
    assert doctor._data(config) == Finding("data", False, "no dataset yet; try `rtm fetch digits --scale smoke`")
    for name in ("shells", "cat"):
        write_text(config.layout.images(name).with_name("meta.json"), "{}")
    assert doctor._data(config) == Finding("data", True, "cat, shells")


def test_one_line_says_whether_it_works(capsys: pytest.CaptureFixture[str]) -> None:
    doctor.show([Finding("GPU", True, "one"), Finding("vgg16", None, "lacks x"), Finding("SLURM", False, "none")])
    assert capsys.readouterr().out == "yes  GPU         one\npart vgg16       lacks x\nno   SLURM       none\n"
