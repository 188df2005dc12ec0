"""What a training method is: the step that the loop repeats, and what of it must survive a stop."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.data.datasets import Images


@dataclass(frozen=True)
class Setting:
    """What a method is built from."""

    experiment: Experiment
    seed: int
    images: Images
    weights: Path | None  # of the frozen network that the method looks through
    device: torch.device


class Method(ABC):
    """What a step of training is, and what of it must survive."""

    generator: nn.Module
    networks: nn.ModuleDict  # everything that is trained, the generator among it
    optimizers: dict[str, torch.optim.Optimizer]

    @abstractmethod
    def step(self, step: int) -> dict[str, Tensor | float]:
        """Update the networks once; the numbers for the log, "loss" among them."""

    @abstractmethod
    def ema_decay(self, step: int) -> float: ...

    def extra(self) -> dict[str, Any]:
        """State beside networks and optimisers: tensors and numbers."""
        return {}

    def load_extra(self, extra: dict[str, Any]) -> None:
        assert not extra
