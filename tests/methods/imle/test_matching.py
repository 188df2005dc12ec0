"""Matching: the data's features are the same from any number of processes, and the gap of two samples is right."""

from pathlib import Path

import pytest
import torch
from support import smoke_workspace
from torch import Tensor

from rtm.core import distributed
from rtm.methods.imle.matching import gap
from rtm.methods.imle.method import ImleMethod


@pytest.mark.parametrize(("chunk", "processes"), [(20, 2), (16, 2), (48, 3), (7, 4)])
def test_processes_share_the_data_features(
    chunk: int,
    processes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    matching = ImleMethod(
        smoke_workspace.setting(tmp_path, smoke_workspace.experiment("shells_imle_rtm", batch=16))
    ).matching
    matching.imle = matching.imle.model_copy(update={"chunk": chunk})
    alone = matching.data_features
    assert len(alone) == 48
    shares: list[Tensor] = []

    def features_of(rank: int) -> Tensor:
        del matching.data_features
        monkeypatch.setattr(distributed, "rank", lambda: rank)
        return matching.data_features

    def collected(share: Tensor) -> list[Tensor]:
        shares.append(share)
        return [share] * processes

    monkeypatch.setattr(distributed, "world", lambda: processes)
    monkeypatch.setattr(distributed, "gather", collected)
    for rank in range(processes):
        features_of(rank)
    monkeypatch.setattr(distributed, "gather", lambda _: shares)
    assert torch.equal(features_of(0), alone)
    assert all(share.shape[0] <= -(-48 // (chunk * processes)) for share in shares)


def test_the_gap_of_equal_and_of_disjoint_samples() -> None:
    few = torch.tensor([0.0, 1.0, 1.0, 3.0])
    many = torch.tensor([0.0, 1.0, 1.0, 3.0]).repeat(5)
    assert gap(few, many) == 0
    assert gap(few, many + 4) == 1
