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
from rtm.training.assembly import metadata_of

IMLE, MLP, GAN = "shells_imle_rtm", "shells_imle_mlp", "cifar10_stylegan2_ada_rtm"


def write(path: Path, experiment: Experiment | str, **changed: Any) -> nn.Module:
    """Write a checkpoint whose metadata have the changed values; return its network."""
    chosen = smoke_workspace.experiment(experiment) if isinstance(experiment, str) else experiment
    torch.manual_seed(0)
    network = build_generator(chosen.architecture).eval()
    with torch.no_grad():
        for parameter in network.parameters():  # a zero would hide whether it is used
            parameter.add_(0.1 * torch.randn_like(parameter))
        for name, buffer in network.named_buffers():
            if name == "mapping.w_avg":
                buffer.normal_()
    described = {**metadata_of(chosen, 0, "fingerprint", "sha256"), **changed}
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(network.state_dict(), path, {"rtm": json.dumps(described, sort_keys=True)})
    return network
