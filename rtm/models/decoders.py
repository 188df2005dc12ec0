"""The decoders w -> image of the RS-IMLE experiments (App. C, Fig. 4): residual and ConvNeXt-style blocks.

A learned constant is upsampled stage by stage. Every block, of either kind, does
    [upsample] -> [+ noise] -> AdaIN(w) -> x + branch(x)
so the style acts on the trunk itself, not only on the branch. Feature maps are (batch, width, R, R), in either memory
format.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class AdaIN(nn.Module):
    """Instance normalisation (of maps larger than 1 x 1), then a scale and a shift for each channel from w."""

    def __init__(self, dim: int, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.affine = nn.Linear(dim, 2 * width)
        with torch.no_grad():
            self.affine.bias.copy_(torch.cat([torch.ones(width), torch.zeros(width)]))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        scale, shift = self.affine(w)[:, :, None, None].chunk(2, 1)
        if x.shape[-1] > 1:
            x = x - x.mean((2, 3), keepdim=True)
            variance = x.square().mean((2, 3), keepdim=True)
            scale = scale * torch.rsqrt(variance + self.eps)
        return torch.addcmul(shift, x, scale)


class ResidualBranch(nn.Module):
    """RS-IMLE's bottleneck: 1x1, 3x3, 3x3, 1x1 convolutions, a GELU before each."""

    def __init__(self, width: int, resolution: int, bottleneck: float) -> None:
        super().__init__()
        inner = max(1, int(width * bottleneck))
        size = 3 if resolution > 2 else 1  # on tiny maps a 3x3 would see mostly padding
        self.layers = nn.Sequential(
            nn.GELU(),
            nn.Conv2d(width, inner, 1),
            nn.GELU(),
            nn.Conv2d(inner, inner, size, padding=size // 2),
            nn.GELU(),
            nn.Conv2d(inner, inner, size, padding=size // 2),
            nn.GELU(),
            nn.Conv2d(inner, width, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.layers(x))


class ConvNeXtBranch(nn.Module):
    """Depthwise 7x7, LayerNorm over channels, 1x1 wide, GELU, 1x1 back. There is no LayerScale, because it would slow
    the beginning of training."""

    def __init__(self, width: int, expansion: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.layers = nn.Sequential(
            nn.LayerNorm(width, eps=1e-6),
            nn.Linear(width, expansion * width),
            nn.GELU(),
            nn.Linear(expansion * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.depthwise(x).permute(0, 2, 3, 1)  # channels last, where the 1x1 convolutions are plain products
        return cast(Tensor, self.layers(x).permute(0, 3, 1, 2))


class DecoderBlock(nn.Module):
    """One block of Fig. 4; the first of a stage also upsamples and, if the widths differ, changes the width."""

    def __init__(
        self,
        branch: nn.Module,
        adain: AdaIN,
        before: int,  # channels of the input
        width: int,  # channels of the output
        upsample: int,  # factor
        noise_std: float | None,  # None: no noise
    ) -> None:
        super().__init__()
        self.branch = branch
        self.adain = adain
        self.upsample = upsample
        self.resize = nn.Conv2d(before, width, 1) if before != width else None
        self.noise = None if noise_std is None else nn.Parameter(torch.randn(width, 1, 1) * noise_std)

    def forward(self, x: Tensor, w: Tensor, noise: Tensor | None) -> Tensor:
        if self.resize is not None:
            x = self.resize(x)  # before upsampling: cheaper, with the same result
        if self.upsample > 1:
            x = F.interpolate(x, scale_factor=self.upsample, mode="nearest")
        if self.noise is not None and noise is not None:
            x = x + (self.noise * noise).to(x.dtype)
        x = self.adain(x, w)
        return x + cast(Tensor, self.branch(x))


class Decoder(nn.Module):
    """A decoder of Fig. 4, given as {resolution: blocks}. Images are (batch, channels, R, R) in [-1, 1]."""

    def __init__(
        self,
        dim: int,  # size of w
        block: Literal["residual", "convnext"],
        blocks: Mapping[int, int],  # how many at each resolution, e.g. {1: 1, 4: 3, 8: 6, 16: 6, 32: 6}
        width: int,  # channels
        widths: Mapping[int, int] | None = None,  # resolution: channels, if they differ from `width`
        expansion: int = 4,  # factor of channels in ConvNeXt's 1x1 convolutions
        bottleneck: float = 0.25,  # factor of channels in the residual block's inner convolutions
        noise: bool = True,  # spatial noise injection
        noise_max_resolution: int = 256,
        noise_std: float = 0.0,  # of the initial noise weights; 0 starts without noise
        norm_eps: float = 1e-2,  # of the instance normalisation, as in RS-IMLE
        channels: int = 3,  # 1: grey images; the one channel is repeated three times
    ) -> None:
        super().__init__()
        blocks = _by_number(blocks)
        widths = _by_number(widths or {})
        stages = sorted(blocks)
        first = stages[0]
        self.noise_resolutions = [r for r in stages if noise and r <= noise_max_resolution]
        width_at = {r: widths.get(r, width) for r in stages}
        self.constant = nn.Parameter(torch.randn(1, width_at[first], first, first))
        self.resolutions = [r for r in stages for _ in range(blocks[r])]  # the resolution of each block
        self.layers = nn.ModuleList()
        for before, now in pairwise([first, *self.resolutions]):
            w = width_at[now]
            branch = ResidualBranch(w, now, bottleneck) if block == "residual" else ConvNeXtBranch(w, expansion)
            _initialise(branch, len(self.resolutions))
            noise_here = noise_std if now in self.noise_resolutions else None
            adain = AdaIN(dim, w, norm_eps)
            self.layers.append(DecoderBlock(branch, adain, width_at[before], w, now // before, noise_here))
        self.to_image = nn.Conv2d(width_at[stages[-1]], channels, 1)
        self.gain = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def forward(self, w: Tensor, noise: Sequence[Tensor] = ()) -> Tensor:
        """Images for w (batch, dim). `noise` is empty, or has a map for each of `noise_resolutions`; the blocks of a
        stage share a map. `noise` is an argument because drawing is not compiled."""
        maps = dict(zip(self.noise_resolutions, noise, strict=True)) if noise else {}
        x = self.constant.expand(len(w), -1, -1, -1)
        for resolution, layer in zip(self.resolutions, self.layers, strict=True):
            x = layer(x, w, maps.get(resolution))
        images: Tensor = self.to_image(x) * self.gain + self.bias
        return images.expand(-1, 3, -1, -1)


def _by_number(values: Mapping[int, int]) -> dict[int, int]:
    """The same mapping with whole numbers as keys; JSON has texts."""
    return {int(resolution): value for resolution, value in values.items()}


def _initialise(branch: nn.Module, blocks: int) -> None:
    """PyTorch's weights and zero biases; the last layer is scaled, so that the variance does not grow with `blocks`."""
    linear = [module for module in branch.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        for module in linear:
            cast(Tensor, module.bias).zero_()
        linear[-1].weight.mul_(math.sqrt(1 / blocks))
