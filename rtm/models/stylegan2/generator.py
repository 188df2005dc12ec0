"""The StyleGAN2 generator: any mapper, modulated convolutions with demodulation, the skip architecture.

Karras et al., "Analyzing and Improving the Image Quality of StyleGAN", 2020 ("SG2" below).
Shapes: z, w (batch, dim); ws (batch, num_ws, dim), one style a layer; features (batch, channels, R, R).
"""

import math
from contextlib import nullcontext
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.config.architecture import Architecture
from rtm.models.layers import Linear, Noise, compile_mapper, compile_part, no_autocast
from rtm.models.registry import build_mapper
from rtm.models.stylegan2.layers import BLUR, REDUCED_STAGES, channels, fir, lrelu, resolutions, upfirdn
from rtm.models.stylegan2.mapping import StyleMapping


class ModulatedConv(nn.Module):
    """Convolution whose input channels are scaled by a style (SG2 Eq. 1). With demodulation, the output channels are
    scaled back to unit variance (SG2 Eq. 3). All samples share one convolution, with scaled activations before and
    after it; the result equals a convolution with different weights for each sample."""

    blur: Tensor

    def __init__(
        self,
        dim: int,
        fan_in: int,
        fan_out: int,
        size: int,
        demodulate: bool = True,
        up: bool = False,  # double the resolution: a transposed convolution, then a blur
    ) -> None:
        super().__init__()
        self.affine = Linear(dim, fan_in, bias=1.0, equalised=True)
        self.weight = nn.Parameter(torch.randn(fan_out, fan_in, size, size))
        self.gain = 1 / math.sqrt(fan_in * size**2)
        self.demodulate = demodulate
        self.up = up
        self.register_buffer("blur", fir(BLUR, gain=2.0), persistent=False)

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        with no_autocast(w):
            style = self.affine(w)  # (batch, fan_in)
        weight = self.weight * self.gain
        x = x * style.to(x.dtype)[:, :, None, None]
        if self.up:
            x = F.conv_transpose2d(x, weight.transpose(0, 1), stride=2)
            x = upfirdn(x, self.blur, pad=(1, 1))
        else:
            x = F.conv2d(x, weight, padding=weight.shape[-1] // 2)
        if not self.demodulate:
            return x
        with no_autocast(style):
            energy = weight.square().sum((2, 3))  # (fan_out, fan_in)
            scale = (style.square() @ energy.T + 1e-8).rsqrt()  # (batch, fan_out)
        return torch.mul(x, scale.to(x.dtype)[:, :, None, None])


class StyledLayer(nn.Module):
    """Modulated convolution, noise, bias, activation."""

    def __init__(self, dim: int, fan_in: int, fan_out: int, up: bool = False) -> None:
        super().__init__()
        self.conv = ModulatedConv(dim, fan_in, fan_out, size=3, up=up)
        self.noise_strength = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.zeros(fan_out))

    def forward(self, x: Tensor, w: Tensor, noise: Tensor | None) -> Tensor:
        x = self.conv(x, w)
        if noise is not None:
            x = x + (noise * self.noise_strength).to(x.dtype)
        return lrelu(x + self.bias.to(x.dtype)[:, None, None])


class SynthesisStage(nn.Module):
    """One resolution: its layers, and their share of the image added to the upsampled image so far."""

    blur: Tensor

    def __init__(
        self,
        dim: int,
        fan_in: int,
        fan_out: int,
        resolution: int,
        reduced: bool,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        if resolution > 4:
            self.layers.append(StyledLayer(dim, fan_in, fan_out, up=True))
        self.layers.append(StyledLayer(dim, fan_out, fan_out))
        self.rgb = ModulatedConv(dim, fan_out, 3, size=1, demodulate=False)
        self.rgb_bias = nn.Parameter(torch.zeros(3))
        self.resolution = resolution
        self.reduced = reduced
        self.register_buffer("blur", fir(BLUR, gain=2.0), persistent=False)

    def forward(
        self,
        x: Tensor,
        image: Tensor | None,
        ws: list[Tensor],
        noise: list[Tensor | None],
    ) -> tuple[Tensor, Tensor]:
        with nullcontext() if self.reduced else no_autocast(x):
            for layer, w, field in zip(self.layers, ws[:-1], noise, strict=True):
                x = layer(x, w, field)
            rgb = self.rgb(x, ws[-1]).to(self.rgb_bias.dtype)
            rgb = rgb + self.rgb_bias[:, None, None]
        if image is None:
            return x, rgb
        with no_autocast(x):
            larger = upfirdn(image, self.blur, up=2, pad=(2, 1))
            return x, larger + rgb


class Synthesis(nn.Module):
    """ws to images in about [-1, 1] (not clamped)."""

    def __init__(
        self,
        dim: int,  # d, of w
        resolution: int,  # of the images
        channel_base: int = 32768,  # channels at resolution R: channel_base / R ...
        channel_max: int = 512,  # ... but at most this many
    ) -> None:
        super().__init__()
        self.dim = dim
        steps = resolutions(resolution)
        widths = [channels(step, channel_base, channel_max) for step in steps]
        self.num_ws = 2 * len(steps)  # a stage's image layer shares its w with the next stage's first layer
        self.constant = nn.Parameter(torch.randn(widths[0], 4, 4))
        self.stages = nn.ModuleList()
        before = widths[0]
        for i, (step, width) in enumerate(zip(steps, widths, strict=True)):
            reduced = i >= len(steps) - REDUCED_STAGES
            self.stages.append(SynthesisStage(dim, before, width, step, reduced))
            before = width

    def forward(self, ws: Tensor, noise: Noise | None = None) -> Tensor:
        """Images for ws. `noise` gives the maps of all layers, so the caller can make them functions of the sample.
        Without `noise`, no noise is added."""
        styles = list(ws.unbind(1))
        stages = cast(list[SynthesisStage], list(self.stages))
        layers = [(stage.resolution, layer) for stage in stages for layer in range(len(stage.layers))]
        maps = iter(noise(layers) if noise else [None] * len(layers))
        x = self.constant.expand(len(ws), -1, -1, -1)
        image = None
        for index, stage in enumerate(stages):
            w = styles[max(2 * index - 1, 0) : 2 * index + 2]
            x, image = stage(x, image, w, [next(maps) for _ in stage.layers])
        return cast(Tensor, image)


class StyleGenerator(nn.Module):
    """A mapping and a synthesis network. With `classes`, the mapper takes (batch, 2 dim): see `StyleMapping`."""

    def __init__(
        self,
        mapper: nn.Module,  # (batch, in_dim) -> w
        synthesis: Synthesis,
        classes: int = 0,  # 0: unconditional
    ) -> None:
        super().__init__()
        self.mapping = StyleMapping(mapper, synthesis.num_ws, classes, dim=synthesis.dim)
        self.synthesis = synthesis

    @property
    def mapper(self) -> nn.Module:
        return self.mapping.mapper

    def forward(
        self,
        z: Tensor,
        labels: Tensor | None = None,
        noise: Noise | None = None,
        truncation: float = 1.0,  # psi: 1 does not change w, 0 gives the mean image
        mixing: tuple[Tensor, Tensor] | None = None,  # (z2, crossover), see `StyleMapping.styles`
        **depth: float | Tensor,  # of a recursive mapper: H, or tolerance and max_H
    ) -> Tensor:
        w = self.mapping.map(z, labels, **depth)
        if mixing is not None:
            z2, crossover = mixing
            mixing = self.mapping.map(z2, labels, **depth), crossover
        ws = self.mapping.styles(w, mixing)
        ws = self.mapping.truncate(ws, truncation)
        return cast(Tensor, self.synthesis(ws, noise))

    def compile_parts(self) -> None:
        """Compile only the parts that become faster by it."""
        compile_mapper(self.mapper)
        for stage in self.synthesis.stages:
            compile_part(stage)


def build_generator(architecture: Architecture) -> StyleGenerator:
    """Build the synthesis before the mapper: so with one seed, it starts with the same weights for all mappers."""
    dim = architecture.dim
    assert architecture.stylegan2 is not None
    synthesis = Synthesis(dim, architecture.resolution, **architecture.stylegan2)
    in_dim = 2 * dim if architecture.classes else dim
    mapper = build_mapper(architecture.mapper, dim, in_dim)
    return StyleGenerator(mapper, synthesis, architecture.classes)
