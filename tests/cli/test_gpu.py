"""`rtm doctor --gpu` with the CPU in place of a GPU: every check runs, and a failure is a finding, not a traceback."""

from pathlib import Path

import pytest
import torch
from support import PARAMS, smoke_workspace

from rtm.cli import gpu
from rtm.cli.doctor import Finding
from rtm.config import Config, load
from rtm.core.errors import UserError

NAME, GAN = "cifar10_imle_rtm", "cifar10_stylegan2_ada_rtm"


@pytest.fixture
def smoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    config = load("smoke", PARAMS)
    monkeypatch.chdir(tmp_path)
    smoke_workspace.fetch(config)
    return config


@pytest.mark.slow(seconds=20)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's, when it imports inductor
def test_everything_is_tried(smoke: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "MESSAGE", 2**16)
    findings = {finding.subject: finding for finding in gpu.examine(smoke, NAME)}
    assert list(findings) == ["driver", "cpu", "toolkit", "compile", "gloo", "training", "plan"]
    assert not findings["driver"].good and "the CPU stands in" in findings["driver"].advice
    assert all(findings[name].good for name in ("cpu", "compile", "gloo", "training")), findings
    assert "2 processes add up" in findings["gloo"].advice
    assert "10 steps of 8 images" in findings["training"].advice
    assert "a matching chunk in" in findings["training"].advice and "GiB" in findings["training"].advice


def test_a_gan_has_no_matching(smoke: Config) -> None:
    found = next(gpu._rehearsed(smoke, smoke.experiment(GAN), torch.device("cpu")))
    assert found.good and "matching" not in found.advice


def test_the_share_of_one_process_is_tried() -> None:
    paper = load("paper", PARAMS).experiment(NAME)
    short = gpu._shortened(paper).recipe
    assert short.training.batch == 64 and short.imle is not None
    assert short.imle.pool * paper.dataset.count < short.imle.chunk == 256


def test_an_unknown_experiment_is_refused_before_anything_runs(smoke: Config) -> None:
    with pytest.raises(UserError, match="cifar10_imle_rtm"):
        next(gpu.examine(smoke, "cifar10_imle_rtn"))


def test_missing_weights_are_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load("smoke", PARAMS)
    monkeypatch.chdir(tmp_path)
    finding = next(gpu._rehearsed(config, config.experiment(NAME), torch.device("cpu")))
    assert not finding.good and "rtm fetch digit_classifier --scale smoke" in finding.advice


def test_a_failure_is_a_finding() -> None:
    def fails() -> str:
        raise RuntimeError("CUDA error: no kernel image is available\nmore lines")

    assert gpu._attempt("cuda:0", fails) == Finding(
        "cuda:0", False, "fails: RuntimeError: CUDA error: no kernel image is available"
    )


def test_a_missing_compiler_or_header_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": str(tmp_path)})
    assert "Python.h is missing" in gpu._toolkit().advice
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "no C compiler" in gpu._toolkit().advice
