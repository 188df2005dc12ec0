"""Code that several networks share: the linear layer, its initialisation, PixelNorm, full precision under autocast."""

import math
from collections.abc import Callable, Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Noise = Callable[[Sequence[tuple[int, ...]]], Sequence[Tensor]]  # for (R,) or (R, layer): normal (batch, 1, R, R)

_TRUNCATED_STD = 0.8796256610342398  # standard deviation of N(0, 1) cut at +-2


def no_autocast(x: Tensor) -> torch.autocast:
    """Switch autocast off: styles, statistics, images and logits keep the precision of the weights."""
    kind = x.device.type
    return torch.autocast("cpu" if kind == "meta" else kind, enabled=False)


def pixel_norm(x: Tensor) -> Tensor:
    """Scale each vector to a mean square of one (Fig. 3)."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-8)


def relative_change(before: Tensor, after: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    """|after - before| / |after| over the axes."""
    distance = torch.linalg.vector_norm(after - before, dim=axes)
    length = torch.linalg.vector_norm(after, dim=axes)
    return cast(Tensor, distance / length)


def truncated_normal_(tensor: Tensor, std: float, generator: torch.Generator | None = None) -> Tensor:
    """Fill with normal numbers, cut at two sigma and then scaled so that the standard deviation is `std`."""
    nn.init.trunc_normal_(tensor, generator=generator)
    with torch.no_grad():
        return tensor.mul_(std / _TRUNCATED_STD)


def compile_mapper(mapper: nn.Module) -> None:
    """Compile only the block of a recursive mapper: the whole recursion would take minutes and run no faster."""
    block = getattr(mapper, "block", None)
    if isinstance(block, nn.Module):
        compile_part(block)


def compile_part(module: nn.Module, backend: str = "inductor") -> None:
    """Compile in place, for fixed shapes. All parts are versions of the same code, and torch's default limit is 8."""
    module.compile(backend=backend, dynamic=False, recompile_limit=128)


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


class Linear(nn.Module):
    """W x + b, where W is `gain` times the stored weight and b is `lr_mul` times the stored bias.

    Adam moves every stored parameter by about the learning rate, so lr_mul scales the steps of W and b. W starts with a
    standard deviation of 1 / sqrt(fan_in).
    """

    def __init__(
        self,
        fan_in: int,
        fan_out: int,
        bias: float | None = 0.0,  # its initial value; None: no bias
        lr_mul: float = 1.0,  # multiplier of the learning rate
        equalised: bool = False,  # StyleGAN2's start and gain; otherwise LeCun's start, as in TRM
    ) -> None:
        super().__init__()
        self.lr_mul = lr_mul
        self.gain = lr_mul
        self.weight = nn.Parameter(torch.empty(fan_out, fan_in))
        self.bias = None if bias is None else nn.Parameter(torch.full((fan_out,), bias / lr_mul))
        if equalised:
            self.equalise()
        else:
            truncated_normal_(self.weight, 1 / (lr_mul * math.sqrt(fan_in)))

    def equalise(self, anew: bool = True) -> None:
        """Equalise the learning rate: store weights in units of their initial deviation, so that Adam changes the same
        share of a weight for every fan-in. With `anew`, draw new unit normal weights, as StyleGAN2 does."""
        before = self.gain
        self.gain = self.lr_mul / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            if anew:
                self.weight.normal_().div_(self.lr_mul)
            else:
                self.weight.mul_(before / self.gain)

    def effective(self) -> Tensor:
        return self.weight if self.gain == 1 else self.weight * self.gain

    def forward(self, x: Tensor) -> Tensor:
        bias: Tensor | None = self.bias
        if bias is not None and self.lr_mul != 1:
            bias = bias * self.lr_mul
        return F.linear(x, self.effective(), bias)
