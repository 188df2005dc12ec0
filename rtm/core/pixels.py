"""Conversion between pixels and the values of networks."""

import torch
from torch import Tensor


def to_unit(pixels: Tensor) -> Tensor:
    """uint8 to float32 in [-1, 1]."""
    return pixels.to(torch.float32, copy=True).div_(127.5).sub_(1)  # in place, because new memory costs more


def to_pixels(images: Tensor) -> Tensor:
    """[-1, 1] to uint8, rounded to the nearest."""
    pixels = (images.float() + 1) * 127.5
    return pixels.round().clamp(0, 255).to(torch.uint8)
