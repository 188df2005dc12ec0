"""GPUs are tested before a long training. The CPU stands in for a GPU."""

from pathlib import Path

import pytest
import torch
from support import PARAMS, smoke_workspace

from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.plan import gpus
from rtm.plan.gpus import attempt
from rtm.plan.machine import Finding

NAME = "cifar10_imle_rtm"
GAN = "cifar10_stylegan2_ada_rtm"
CPU = torch.device("cpu")


@pytest.fixture
def smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    config = load("smoke", PARAMS)
    monkeypatch.chdir(tmp_path)
    smoke_workspace.fetch(config)
    return config


@pytest.mark.slow(seconds=20)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, when it imports inductor
def test_everything_is_tested(smoke: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "MESSAGE", 2**16)
    findings = {finding.subject: finding for finding in gpus.examine_gpus(smoke, NAME)}
    assert list(findings) == ["driver", "cpu", "toolkit", "compile", "gloo", "training", "plan"]
    assert not findings["driver"].good
    assert "the CPU stands in" in findings["driver"].advice
    assert all(findings[name].good for name in ("cpu", "compile", "gloo", "training")), findings
    assert "2 processes add up" in findings["gloo"].advice
    assert "10 steps of 8 images" in findings["training"].advice
    assert "a matching chunk in" in findings["training"].advice
    assert "GiB" in findings["training"].advice


def test_a_gan_has_no_matching(smoke: Config) -> None:
    assert "matching" not in gpus.training(smoke, smoke.experiment(GAN), CPU)


def test_an_unknown_experiment_is_refused_before_anything_runs(smoke: Config) -> None:
    with pytest.raises(UserError, match=NAME):
        next(gpus.examine_gpus(smoke, "cifar10_imle_rtn"))


def test_missing_weights_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("smoke", PARAMS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="rtm fetch digit_classifier --scale smoke"):
        gpus.training(config, config.experiment(NAME), CPU)


def test_a_failure_is_a_finding() -> None:
    def fail() -> str:
        raise RuntimeError("CUDA error: no kernel image is available\nmore lines")

    expected = "fails: RuntimeError: CUDA error: no kernel image is available"
    assert attempt("cuda:0", fail) == Finding("cuda:0", False, expected)


def test_a_missing_compiler_or_header_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    assert "Python.h is missing" in gpus.toolkit().advice
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "no C compiler" in gpus.toolkit().advice
