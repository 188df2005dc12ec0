"""FID's Inception-v3 (TensorFlow's of 2015-12-05) as one table, with its batch norms folded into the convolutions.

The layers bear torch-fidelity's names. Against torchvision's network: average pooling leaves out the padding, the last
cell pools by maximum, and there are 1008 classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.data.weights import load_network
from rtm.metrics.features import Extractor, Features, identity
from rtm.metrics.resize import resized


@dataclass(frozen=True)
class Conv:
    """A convolution and a ReLU; with stride 1 the size is kept unless `valid`."""

    name: str
    width: int
    kernel: int | tuple[int, int] = 1
    stride: int = 1
    valid: bool = False


# A step is a convolution, a pooling, or a tuple of branches whose results are joined; a branch is a list of steps.
Step: TypeAlias = "Conv | str | tuple[Branch, ...]"
Branch: TypeAlias = Sequence[Step]


def _a(pooled: int) -> Branch:
    double = [Conv("branch3x3dbl_1", 64), Conv("branch3x3dbl_2", 96, 3), Conv("branch3x3dbl_3", 96, 3)]
    five = [Conv("branch5x5_1", 48), Conv("branch5x5_2", 64, 5)]
    return [([Conv("branch1x1", 64)], five, double, ["average", Conv("branch_pool", pooled)])]


def _b() -> Branch:
    double = [Conv("branch3x3dbl_1", 64), Conv("branch3x3dbl_2", 96, 3), Conv("branch3x3dbl_3", 96, 3, 2)]
    return [([Conv("branch3x3", 384, 3, 2)], double, ["halve"])]


def _c(width: int) -> Branch:
    names = [f"branch7x7dbl_{number}" for number in range(1, 6)]
    kernels = [(1, 1), (7, 1), (1, 7), (7, 1), (1, 7)]
    widths = [width] * 4 + [192]
    double = [Conv(*layer) for layer in zip(names, widths, kernels, strict=True)]
    seven = [Conv("branch7x7_1", width), Conv("branch7x7_2", width, (1, 7)), Conv("branch7x7_3", 192, (7, 1))]
    return [([Conv("branch1x1", 192)], seven, double, ["average", Conv("branch_pool", 192)])]


def _d() -> Branch:
    seven = [Conv("branch7x7x3_1", 192), Conv("branch7x7x3_2", 192, (1, 7)), Conv("branch7x7x3_3", 192, (7, 1))]
    three = [Conv("branch3x3_1", 192), Conv("branch3x3_2", 320, 3, 2)]
    return [(three, [*seven, Conv("branch7x7x3_4", 192, 3, 2)], ["halve"])]


def _e(pool: str) -> Branch:
    def split(name: str) -> tuple[Branch, Branch]:
        return [Conv(f"{name}a", 384, (1, 3))], [Conv(f"{name}b", 384, (3, 1))]

    three: Branch = [Conv("branch3x3_1", 384), split("branch3x3_2")]
    double: Branch = [Conv("branch3x3dbl_1", 448), Conv("branch3x3dbl_2", 384, 3), split("branch3x3dbl_3")]
    return [([Conv("branch1x1", 320)], three, double, [pool, Conv("branch_pool", 192)])]


STEM: Branch = [
    Conv("Conv2d_1a_3x3", 32, 3, 2),
    Conv("Conv2d_2a_3x3", 32, 3, valid=True),
    Conv("Conv2d_2b_3x3", 64, 3),
    "halve",
    Conv("Conv2d_3b_1x1", 80),
    Conv("Conv2d_4a_3x3", 192, 3, valid=True),
    "halve",
]
CELLS: dict[str, Branch] = {
    "": STEM,
    "Mixed_5b.": _a(32),
    "Mixed_5c.": _a(64),
    "Mixed_5d.": _a(64),
    "Mixed_6a.": _b(),
    "Mixed_6b.": _c(128),
    "Mixed_6c.": _c(160),
    "Mixed_6d.": _c(160),
    "Mixed_6e.": _c(192),
    "Mixed_7a.": _d(),
    "Mixed_7b.": _e("average"),
    "Mixed_7c.": _e("maximum"),
}


def _layers(steps: Branch, prefix: str) -> Iterator[tuple[str, Conv]]:
    for step in steps:
        if isinstance(step, Conv):
            yield prefix + step.name, step
        elif isinstance(step, tuple):
            for branch in step:
                yield from _layers(branch, prefix)


class Inception(nn.Module):
    """Images (batch, 3, 299, 299), normalised, to the pooled features (batch, 2048)."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.weights, self.biases = nn.ParameterDict(), nn.ParameterDict()
        for prefix, steps in CELLS.items():
            for name, _ in _layers(steps, prefix):
                weight, bias = _folded(tensors, name)
                key = name.replace(".", "/")
                self.weights[key] = nn.Parameter(weight.contiguous(memory_format=torch.channels_last), False)
                self.biases[key] = nn.Parameter(bias, False)

    def forward(self, images: Tensor) -> Tensor:
        x = images.contiguous(memory_format=torch.channels_last)
        for prefix, steps in CELLS.items():
            x = self._run(steps, prefix, x)
        return x.mean((2, 3))

    def _run(self, steps: Branch, prefix: str, x: Tensor) -> Tensor:
        for step in steps:
            if isinstance(step, tuple):
                x = torch.cat([self._run(branch, prefix, x) for branch in step], 1)
            elif isinstance(step, Conv):
                x = self._convolve(step, prefix, x)
            elif step == "halve":
                x = F.max_pool2d(x, 3, 2)
            elif step == "maximum":
                x = F.max_pool2d(x, 3, 1, 1)
            else:
                x = F.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
        return x

    def _convolve(self, layer: Conv, prefix: str, x: Tensor) -> Tensor:
        key = (prefix + layer.name).replace(".", "/")
        weight = self.weights[key]
        kept = layer.stride == 1 and not layer.valid
        padding = [side // 2 if kept else 0 for side in weight.shape[2:]]
        return F.relu_(F.conv2d(x, weight, self.biases[key], layer.stride, padding))


def _folded(tensors: Mapping[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution with its batch norm (eps 1e-3)."""
    norm = {part: tensors[f"{name}.bn.{part}"].double() for part in ("weight", "bias", "running_mean", "running_var")}
    scale = norm["weight"] / torch.sqrt(norm["running_var"] + 1e-3)
    weight = tensors[f"{name}.conv.weight"].double() * scale[:, None, None, None]
    return weight.float(), (norm["bias"] - norm["running_mean"] * scale).float()


class InceptionExtractor(Extractor):
    """2048 pooled features and, where the weights have them, 1008 classes.

    The way of resizing names the family of protocols: torch-fidelity's `tf1` and clean-fid's `pil_bicubic` normalise as
    TensorFlow did and leave out the bias of the classes; StudioGAN's `torch` maps 0..255 to -1..1 and keeps it.
    """

    SIDE = 299
    head: Tensor | None
    bias: Tensor | None

    def __init__(self, weights: Path, resize: str = "tf1") -> None:
        super().__init__()
        tensors = load_network(weights)
        self.network, self.resize = Inception(tensors), resize
        self.register_buffer("head", tensors.get("fc.weight"))
        self.register_buffer("bias", tensors.get("fc.bias") if resize == "torch" else None)
        self.digest = identity(weights, resize)

    def forward(self, images: Tensor) -> Features:
        pixels = resized(images, self.resize, self.SIDE)
        if self.resize == "pil_bicubic":
            pixels = pixels.clamp(0, 255)
        features: Tensor = self.network(pixels / 127.5 - 1 if self.resize == "torch" else (pixels - 128) / 128)
        return Features(features, None if self.head is None else F.linear(features, self.head, self.bias))
