"""docs/known/: answers that are known from other sources, or by hand, against the code's results."""

import json
import math
import os
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from support import ROOT
from support.needed import needed
from torch.utils.flop_counter import FlopCounterMode

from rtm.metrics.uncertainty import NORMAL
from rtm.models.mappers import RTM, MLPMapper


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that makes the files."""
    monkeypatch.syspath_prepend(ROOT)
    return import_module("benchmarks.known")


def kept(name: str) -> Any:
    return json.loads((ROOT / "docs" / "known" / name).read_text("utf-8"))


def flops(module: torch.nn.Module, dim: int) -> int:
    with FlopCounterMode(display=False) as counter:
        module.requires_grad_(False)(torch.empty(1, dim, device="meta"))
    return int(counter.get_total_flops())


@pytest.mark.slow(seconds=14)
def test_the_counts_are_those_of_the_code(known: Any) -> None:
    """After a change in params/, run `python -m benchmarks.known`."""
    file = kept("networks.json")
    assert known.parts() == {kind: file[kind] for kind in ("mappers", "decoders")}
    assert known.generators() == file["generators"]


def test_the_counts_are_those_of_the_paper_and_of_stylegan2() -> None:
    file = kept("networks.json")
    mappers = file["mappers"]["parameters"]
    millions = {"style_mlp2": "0.53", "style_mlp16": "4.20", "style_mlp32": "8.40", "style_rtm_16_1": "0.66"}
    assert {name: f"{mappers[name] / 1e6:.2f}" for name in millions} == millions
    # for each resolution, as stylegan2-ada-pytorch prints them: first the constant, then convolutions and ToRGB
    printed = [8192 + 2622465 + 264195, *4 * [2 * 2622465 + 264195], 1442561 + 721409 + 132099, 426369 + 213249 + 66051]
    last = 139457 + (9 * 64 * 64 + 64 + 1 + 64 * 513) + (3 * 64 + 3 + 64 * 513)
    assert file["generators"]["paper"]["afhq_stylegan2_ada_mlp"]["decoder_parameters"] == sum(printed) + last


def test_flops_are_those_by_hand() -> None:
    """Each use of a weight counts as two FLOPs. f mixes 4 tokens by 16 inner units, and 128 channels by 344."""
    dim = 512
    tokens = 4
    width = 128
    H = 16
    L = 1
    with torch.device("meta"):
        rtm = RTM(dim, tokens, width, H, L)
        mlp = MLPMapper(dim, layers=8)
    inner = {size: -(-int(size * 8 / 3) // 8) * 8 for size in (tokens, width)}  # 4 x 2/3, rounded up to a multiple of 8
    block = 3 * inner[tokens] * tokens * width + 3 * inner[width] * width * tokens
    assert flops(mlp, dim) == 8 * 2 * dim**2
    assert flops(rtm, dim) == 2 * (2 * dim**2 + H * (L + 1) * block)


def test_lpips_is_that_of_its_package(known: Any) -> None:
    path = needed(Path(os.environ.get("RTM_WEIGHTS", "weights")) / "vgg16.safetensors", "vgg16", "REQUIRE_WEIGHTS")
    file = kept("lpips.json")["lpips"]
    assert known.lpips_of_two_images(path) == pytest.approx(file["package"], rel=1e-5)


@pytest.mark.parametrize(
    ("name", "density", "alike"), [("cifar10_halves.json", 0.2, 0.1), ("cifar10_test_vs_train.json", 0.03, 0.01)]
)
def test_parts_of_one_set_score_what_theory_says(name: str, density: float, alike: float) -> None:
    """Density is 1, KID is 0, precision equals recall. A real image is not covered if its k nearest are all real."""
    file = kept(name)
    metrics = file["metrics"]
    real = file["reference"]["images"]
    both = file["reference"]["images"] + file["samples"]
    missed = math.prod((real - each) / (both - each) for each in (1, 2, 3))
    low, high = file["intervals"]["coverage"]
    assert low <= 1 - missed <= high
    assert abs(metrics["kid"]) < 2 * NORMAL * metrics["kid_se"]  # twice, because the other part varies as well
    assert metrics["density"] == pytest.approx(1, abs=density)
    assert metrics["precision"] == pytest.approx(metrics["recall"], abs=alike)
    assert file["notes"] == []


def test_the_fid_of_test_against_training_images_is_that_of_the_literature() -> None:
    file = kept("cifar10_test_vs_train.json")
    assert file["metrics"]["fid"] == pytest.approx(3.15, abs=0.02)
    assert (file["samples"], file["reference"]["images"], file["protocol"]) == (10_000, 50_000, "paper")
