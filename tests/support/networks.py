"""A network that a test fetches in place of Inception."""

from pathlib import Path

import pytest
import torch

from rtm.config.experiments import Source
from rtm.data.networks import NETWORKS, NetworkFile, state_dict
from rtm.data.parts import PARTS


def offer(monkeypatch: pytest.MonkeyPatch, *sources: Source) -> None:
    monkeypatch.setitem(NETWORKS, "inception", NetworkFile("a test", dict.fromkeys(sources, state_dict)))
    monkeypatch.setitem(PARTS, "inception", ("head.weight", "a head"))


def state(path: Path) -> Path:
    torch.save({"a.weight": torch.arange(6.0).reshape(2, 3).T, "bn.num_batches_tracked": torch.tensor(1)}, path)
    return path
