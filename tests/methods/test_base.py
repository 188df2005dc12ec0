"""A step never waits for the device. Copies from pageable memory are not seen here."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from support import smoke_workspace
from support.operations import Operations

from rtm.methods.registry import build_method
from rtm.methods.stylegan2.augment import Augment

WAITS = {"_local_scalar_dense", "item", "nonzero", "is_nonzero", "masked_select", "unique2", "_unique2"}


@pytest.mark.parametrize("name", ["cifar10_imle_rtm", "celebahq_imle_mlp", "afhq_stylegan2_ada_rtm"])
def test_a_step_asks_the_device_for_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The RS-IMLE step does not begin an epoch. The StyleGAN2-ADA step augments, computes path lengths and R1, and does
    not adapt p."""
    method = build_method(smoke_workspace.setting(tmp_path, smoke_workspace.experiment(name, batch=8)))
    method.step(0)
    if "stylegan2" in name:
        method.load_extra({**method.extra(), "p": 0.5})
        monkeypatch.setattr(Augment, "warp", lambda self, images, places: images)  # it needs a number on the host
        plain = lambda labels, n: (labels[:, None] == torch.arange(n)).long()  # noqa: E731
        monkeypatch.setattr(F, "one_hot", plain)  # torch's version reads the labels on a CPU, but not on a GPU
    with Operations() as step:
        method.step(4)
    assert step.count > 100
    assert not WAITS & set(step.names)
