"""Resizing to a network's input size. Linear, separable filters are done by two matrix products."""

from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor


def _tf1(size: int, side: int) -> Tensor:
    """TensorFlow 1's bilinear: aligned at the origin, no half pixels; positions in float32 as in TensorFlow."""
    step = torch.tensor(size / side, dtype=torch.float32)
    return _bilinear(torch.arange(side, dtype=torch.float32) * step, size)


def _half_pixel(size: int, side: int) -> Tensor:
    """PyTorch's bilinear, align_corners=False, without antialiasing."""
    position = (torch.arange(side) + 0.5) * (size / side) - 0.5
    return _bilinear(position.clamp(min=0), size)


def _bilinear(position: Tensor, size: int) -> Tensor:
    low = position.long()
    high = (low + 1).clamp(max=size - 1)
    weight = position - low
    rows = torch.arange(len(position))
    matrix = torch.zeros(len(position), size)
    matrix[rows, low] += 1 - weight
    matrix[rows, high] += weight
    return matrix


def _bicubic(size: int, side: int) -> Tensor:
    """Pillow's antialiased bicubic (a = -1/2), as clean-fid uses it on floats."""
    scale = max(1.0, size / side)
    row = torch.arange(side, dtype=torch.float64)[:, None]
    pixel = torch.arange(size, dtype=torch.float64)[None]
    centre = (row + 0.5) * (size / side)
    low = (centre - 2 * scale + 0.5).floor()
    high = (centre + 2 * scale + 0.5).floor()
    inside = (pixel >= low.clamp(min=0)) & (pixel < high.clamp(max=size))
    x = ((pixel - centre + 0.5) / scale).abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    outer = torch.where(x < 2, far, 0.0)
    weight = torch.where(x < 1, near, outer) * inside
    total = weight.sum(1, keepdim=True)
    return (weight / total).float()


KERNELS = {"tf1": _tf1, "torch": _half_pixel, "pil_bicubic": _bicubic}


@lru_cache(maxsize=16)
def _matrix(kernel: str, size: int, side: int, device: torch.device) -> Tensor:
    return KERNELS[kernel](size, side).to(device)


def resized(images: Tensor, kernel: str, side: int) -> Tensor:
    """Images (batch, 3, H, W) to float32 (batch, 3, side, side); the range of values does not change."""
    height, width = images.shape[2:]
    rows = _matrix(kernel, height, side, images.device)
    cols = _matrix(kernel, width, side, images.device)
    return rows @ images.float() @ cols.T


def resized_by_pillow(images: Tensor, side: int, kernel: Image.Resampling) -> Tensor:
    """Images uint8 (batch, 3, H, W) to uint8 (batch, 3, side, side), antialiased and rounded to 8 bits by Pillow."""
    pixels = images.permute(0, 2, 3, 1).cpu().numpy()
    pictures = [Image.fromarray(image).resize((side, side), kernel) for image in pixels]
    small = np.stack([np.asarray(picture) for picture in pictures])
    stacked = torch.from_numpy(small).to(images.device)
    return stacked.permute(0, 3, 1, 2)


def imagenet_normalised(pixels: Tensor) -> Tensor:
    """Values 0..255 (batch, 3, H, W) to the normalisation that ImageNet networks expect."""
    mean = torch.tensor((0.485, 0.456, 0.406), device=pixels.device)[:, None, None]
    std = torch.tensor((0.229, 0.224, 0.225), device=pixels.device)[:, None, None]
    return (pixels / 255 - mean) / std
