"""A rehearsal does the real steps of a training, with rounds of one chunk."""

from pathlib import Path

import pytest
import torch
from support import PARAMS, smoke_workspace
from support.checkpoints import GAN, IMLE

from rtm.config import load
from rtm.training.rehearsal import rehearsing, share_of_a_process, time_steps

CPU = torch.device("cpu")


def test_the_share_of_one_process_is_rehearsed() -> None:
    paper = load("paper", PARAMS).experiment("cifar10_imle_rtm")
    assert paper.recipe.training.batch == 4 * share_of_a_process(paper).recipe.training.batch == 256


@pytest.mark.parametrize("epochs", [1, 2])
def test_a_round_of_one_chunk_begins_with_each_epoch(tmp_path: Path, epochs: int) -> None:
    setting = smoke_workspace.setting(tmp_path, smoke_workspace.experiment(IMLE, {"chunk": 20, "refresh": 3}))
    with rehearsing(setting.experiment, setting.weights, CPU) as rehearsal:
        method = rehearsal.method
        rehearsal.step(0)
        rehearsal.step(1)
        assert vars(method)["rounds"] == 1
        assert vars(method)["m"] == 20
        rehearsal.step(rehearsal.epoch_after(epochs))
        assert vars(method)["rounds"] == 2


@pytest.mark.parametrize("name", [IMLE, GAN])
def test_times_and_memory_are_measured(tmp_path: Path, name: str) -> None:
    setting = smoke_workspace.setting(tmp_path, smoke_workspace.experiment(name))
    timing = time_steps(setting.experiment, setting.weights, CPU, 2)
    assert timing.step > 0
    assert timing.start > 0
    assert timing.peak > 2**26
    assert (timing.chunk is None) == (name == GAN)
