"""The StyleGAN2 discriminator: `orig` or `resnet`, minibatch standard deviation, projection on labels."""

import math
from contextlib import nullcontext
from itertools import pairwise
from typing import Literal, cast

import torch
from torch import Tensor, nn

from rtm.core.errors import UserError
from rtm.models.layers import Linear, no_autocast
from rtm.models.stylegan2.layers import REDUCED_STAGES, EqualConv, channels, lrelu, resolutions
from rtm.models.stylegan2.mapping import LabelEmbedding

Architecture = Literal["orig", "resnet"]


class DiscriminatorStage(nn.Module):
    """Two convolutions that halve the resolution; `resnet` adds a linear path and keeps the variance."""

    def __init__(self, fan_in: int, fan_out: int, architecture: Architecture, reduced: bool) -> None:
        super().__init__()
        self.first = EqualConv(fan_in, fan_in, size=3)
        self.second = EqualConv(fan_in, fan_out, size=3, down=True)
        self.skip = None
        if architecture == "resnet":
            self.skip = EqualConv(fan_in, fan_out, size=1, down=True, bias=False)
        self.reduced = reduced

    def forward(self, x: Tensor) -> Tensor:
        with nullcontext() if self.reduced else no_autocast(x):
            if not self.reduced:
                x = x.to(self.first.weight.dtype)
            y = lrelu(self.first(x))
            y = lrelu(self.second(y))
            if self.skip is None:
                return y
            return cast(Tensor, (y + self.skip(x)) * math.sqrt(0.5))


def minibatch_deviation(x: Tensor, group: int) -> Tensor:
    """Append a channel with the mean standard deviation over groups of `group` neighbouring samples."""
    batch, _, height, width = x.shape
    if batch % group:
        raise UserError(
            f"A process gets {batch} images a step; make the batch a multiple of mbstd_group = {group} per process."
        )
    variance = x.reshape(batch // group, group, -1).var(1, unbiased=False)
    deviation = variance.add(1e-8).sqrt().mean(1)
    channel = deviation.repeat_interleave(group).view(batch, 1, 1, 1)
    return torch.cat([x, channel.expand(-1, 1, height, width)], dim=1)


class LabelMapping(nn.Module):
    """A label's embedding through an eight-layer mapping network."""

    def __init__(self, classes: int, dim: int, depth: int = 8) -> None:
        super().__init__()
        self.embedding = LabelEmbedding(classes, dim)
        self.layers = nn.ModuleList(Linear(dim, dim, lr_mul=0.01, equalised=True) for _ in range(depth))

    def forward(self, labels: Tensor) -> Tensor:
        x: Tensor = self.embedding(labels)
        for layer in self.layers:
            x = lrelu(layer(x))
        return x


class Discriminator(nn.Module):
    """Images to logits, positive for real."""

    def __init__(
        self,
        resolution: int,
        architecture: Architecture = "orig",
        channel_base: int = 32768,  # channels at resolution R: channel_base / R ...
        channel_max: int = 512,  # ... but at most this many
        mbstd_group: int = 4,  # neighbouring samples that share a minibatch standard deviation
        classes: int = 0,  # 0: unconditional
    ) -> None:
        super().__init__()
        steps = resolutions(resolution)[::-1]  # from the image down to 4 x 4
        widths = [channels(step, channel_base, channel_max) for step in steps]
        self.rgb = EqualConv(3, widths[0], size=1)
        self.stages = nn.ModuleList()
        for i, (before, after) in enumerate(pairwise(widths)):
            self.stages.append(DiscriminatorStage(before, after, architecture, reduced=i < REDUCED_STAGES))
        width = widths[-1]
        self.mbstd_group = mbstd_group
        self.conv = EqualConv(width + 1, width, size=3)
        self.hidden = Linear(width * 16, width, equalised=True)
        self.labels = LabelMapping(classes, width) if classes else None
        self.out = Linear(width, width if classes else 1, equalised=True)

    def forward(self, images: Tensor, labels: Tensor | None = None) -> Tensor:
        x = lrelu(self.rgb(images))
        for stage in self.stages:
            x = stage(x)
        with no_autocast(x):
            x = minibatch_deviation(x.to(self.conv.weight.dtype), self.mbstd_group)
            x = lrelu(self.conv(x))
            x = lrelu(self.hidden(x.flatten(1)))
            x = self.out(x)  # (batch, 1 or width)
            if self.labels is None:
                return cast(Tensor, x.squeeze(1))
            if labels is None:
                raise ValueError("a class-conditional discriminator needs labels")
            return cast(Tensor, (x * self.labels(labels)).sum(1) / math.sqrt(x.shape[1]))
