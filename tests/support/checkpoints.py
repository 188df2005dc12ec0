"""Checkpoints in the format of a training, with untrained networks."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from support import smoke_workspace
from torch import nn

from rtm.config import Experiment
from rtm.models.registry import build_generator
from rtm.training.assembly import TrainingTask

IMLE = "shells_imle_rtm"
MLP = "shells_imle_mlp"
GAN = "cifar10_stylegan2_ada_rtm"


def training_of(experiment: Experiment, seed: int = 0, fingerprint: str = "") -> TrainingTask:
    """A training that reads and writes no files."""
    nowhere = Path()
    return TrainingTask(
        experiment,
        seed,
        images=nowhere,
        weights=None,
        watch=None,
        folder=nowhere,
        checkpoint=nowhere,
        curve=nowhere,
        fingerprint=fingerprint,
    )


def metadata_of(experiment: Experiment, seed: int = 0, fingerprint: str = "", data: str = "") -> dict[str, Any]:
    """The description that a training would write."""
    return training_of(experiment, seed, fingerprint).description(data)


def write(path: Path, experiment: Experiment | str, perturbed: bool = True, **changed: Any) -> nn.Module:
    """Write a checkpoint whose metadata have the changed values; return its network."""
    chosen = smoke_workspace.experiment(experiment) if isinstance(experiment, str) else experiment
    torch.manual_seed(0)
    network = build_generator(chosen.architecture).eval()
    if perturbed:
        _perturb(network)
    described = {**metadata_of(chosen, 0, "fingerprint", "sha256"), **changed}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), path, {"rtm": json.dumps(described, sort_keys=True)})
    return network


@torch.no_grad()
def _perturb(network: nn.Module) -> None:
    """Move all weights a little, because a zero would hide whether it is used."""
    for parameter in network.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))
    for name, buffer in network.named_buffers():
        if name == "mapping.w_avg":
            buffer.normal_()
