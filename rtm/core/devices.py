"""The devices of this machine. torch is imported only when a function is called."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def gpu_count() -> int:
    """How many GPUs this machine, or the job on it, has."""
    import torch

    return torch.cuda.device_count()


def best_device() -> "torch.device":
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
