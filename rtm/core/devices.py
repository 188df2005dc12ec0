"""The devices of this machine. torch is imported only when a function is called."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def best_device() -> "torch.device":
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def allow_tf32(allowed: bool) -> None:
    """In float32 convolutions, in training, sampling and latency alike; never in products of matrices nor metrics."""
    import torch

    torch.backends.cudnn.allow_tf32 = allowed


def sent(tensor: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """A copy on the device; a GPU takes it from pinned memory when it is there, and nobody waits."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)
