"""Parts of both generator and discriminator: sizes, the activation, FIR resampling, equalised convolutions."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.core.errors import UserError

BLUR = (1.0, 3.0, 3.0, 1.0)  # the low-pass filter of StyleGAN2 (App. B there)
REDUCED_STAGES = 4  # under autocast, only this many of the highest resolutions use bfloat16


def channels(resolution: int, base: int, largest: int) -> int:
    if base < resolution:
        raise UserError(f"channel_base is {base}; it must be at least the resolution, {resolution}.")
    return min(base // resolution, largest)


def resolutions(final: int) -> list[int]:
    """4, 8, ..., final."""
    steps = [4 << stage for stage in range(max(final, 4).bit_length() - 2)]
    if steps[-1] != final:
        raise ValueError(f"the resolution must be a power of two from 4 on, not {final}")
    return steps


def lrelu(x: Tensor, gain: float = math.sqrt(2)) -> Tensor:
    return F.leaky_relu(x, 0.2) * gain


def fir(taps: Sequence[float], gain: float = 1.0) -> Tensor:
    """The separable two-dimensional filter of `taps`. Its sum is gain^2, to compensate for inserted zeros."""
    line = torch.tensor(taps, dtype=torch.float64)
    line = line * gain / line.sum()
    square = torch.outer(line, line)
    return square.float()


def upfirdn(
    x: Tensor,
    kernel: Tensor,
    up: int = 1,
    down: int = 1,
    pad: tuple[int, int] = (0, 0),
) -> Tensor:
    """Insert up-1 zeros after each pixel, pad with zeros, convolve with the kernel, keep each down-th pixel."""
    batch, depth, height, width = x.shape
    if up > 1:
        pixels = x[:, :, :, None, :, None]
        x = F.pad(pixels, (0, up - 1, 0, 0, 0, up - 1))
        x = x.reshape(batch, depth, height * up, width * up)
    x = F.pad(x, (*pad, *pad))
    weight = kernel.flip(0, 1).to(x.dtype)
    weight = weight.expand(depth, 1, *kernel.shape)
    return F.conv2d(x, weight, stride=down, groups=depth)


class EqualConv(nn.Module):
    """Square convolution with an equalised learning rate; `down` blurs and halves the resolution."""

    blur: Tensor

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        size: int,
        down: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(fan_out, fan_in, size, size))
        self.bias = nn.Parameter(torch.zeros(fan_out)) if bias else None
        self.gain = 1 / math.sqrt(fan_in * size**2)
        self.size = size
        self.down = down
        self.register_buffer("blur", fir(BLUR), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * self.gain
        if not self.down:
            return F.conv2d(x, weight, self.bias, padding=self.size // 2)
        if self.size == 1:  # blur only at the pixels that are kept
            x = upfirdn(x, self.blur, down=2, pad=(1, 1))
            return F.conv2d(x, weight, self.bias)
        x = upfirdn(x, self.blur, pad=(2, 2))
        return F.conv2d(x, weight, self.bias, stride=2)
