"""The interface of a training method: the step that the loop repeats, and the state that a save keeps."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.core import distributed
from rtm.core.devices import allow_tf32
from rtm.core.randomness import seed_of
from rtm.data.batches import expecting
from rtm.data.datasets import Images
from rtm.models.drawing import latents


@dataclass(frozen=True)
class Setting:
    """The arguments from which a method is built."""

    experiment: Experiment
    seed: int
    images: Images
    weights: Path | None  # of the frozen network whose features the method uses
    device: torch.device


class Method(ABC):
    """Networks, their optimisers, and a step of training."""

    generator: nn.Module
    networks: nn.ModuleDict  # everything that is trained, the generator among it
    optimizers: dict[str, torch.optim.Optimizer]

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.images = setting.images
        self.device = setting.device
        self.training = setting.experiment.recipe.training
        self.dim = setting.experiment.recipe.dim  # of z and w
        allow_tf32(self.training.tf32)

    @abstractmethod
    def step(self, step: int) -> dict[str, Tensor | float]:
        """Update the networks once. Return the numbers for the log, which include "loss"."""

    @abstractmethod
    def ema_decay(self, step: int) -> float: ...

    def seed(self, purpose: str) -> int:
        return seed_of(self.setting.seed, purpose)

    def batch(self, step: int) -> Tensor:
        """Indices of the step's images. The images of the next step are read in the background."""
        training = self.training
        seed = self.setting.seed
        return expecting(self.images, seed, step, training.batch, training.accumulate, self.device)

    @torch.no_grad()
    def styles(self) -> Tensor:
        """w (batch, dim) of a few fixed latents. The log shows how far each step moves them."""
        size = self.dim
        if self.setting.experiment.architecture.classes:
            size *= 2  # the input has z and the label's embedding
        mapper = cast(nn.Module, self.generator.mapper)
        with torch.compiler.set_stance("force_eager"):  # do not compile for one batch of another size
            z = latents(seed_of("styles"), torch.arange(64, device=self.device), size)
            return cast(Tensor, mapper(z))

    def descend(self, name: str, loss_of: Callable[[Tensor, int], Tensor], batch: Tensor) -> Tensor:
        """One step of a network's optimiser on this process's share of the batch; the mean loss over all processes.

        loss_of(part, n) is the contribution of a part to the mean over the n samples of the share."""
        optimizer = self.optimizers[name]
        mine = distributed.share(batch)
        optimizer.zero_grad()
        total = torch.zeros((), device=self.device)
        for part in mine.chunk(self.training.accumulate):
            loss = loss_of(part, len(mine))
            loss.backward()
            total += loss.detach()
        distributed.average_gradients([self.networks[name]])
        optimizer.step()
        return distributed.mean(total)

    def extra(self) -> dict[str, Any]:
        """Further state, besides networks and optimisers: tensors and numbers."""
        return {}

    def load_extra(self, extra: dict[str, Any]) -> None:
        assert not extra
