"""A machine with GPUs that are not there."""

import pytest
import torch

from rtm.training import devices


def machine(
    monkeypatch: pytest.MonkeyPatch, gpus: int, usable: bool, driver: str | None = "550.54.15", cuda: str = "13.0"
) -> None:
    """Make torch and nvidia-smi describe such a machine. NVML also counts GPUs whose driver is too old."""

    def available() -> bool:
        if gpus and not usable:
            import warnings

            warnings.warn("CUDA initialization: The NVIDIA driver on your system is too old", stacklevel=1)
        return usable

    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "is_available", available)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "H100")
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(devices, "driver", lambda: driver)
