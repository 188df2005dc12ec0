"""The devices of this machine. torch is imported only when a function is called."""

import subprocess
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def best_device() -> "torch.device":
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def allow_tf32(allowed: bool) -> None:
    """Set whether float32 convolutions on a GPU may use TF32. It is the same in training, sampling and latency; matrix
    products and metrics never use TF32."""
    import torch

    torch.backends.cudnn.allow_tf32 = allowed


def sent(tensor: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """A copy on the device. A GPU copies it from pinned memory later, so the CPU does not wait."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


@cache
def driver() -> str | None:
    """The version of the GPUs' driver."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()[0]
    return None
