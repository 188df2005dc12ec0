"""Mapping networks z -> w: the Recursive Token Mapper (Algorithm 1) and the MLPs that it replaces.

z is (batch, in_dim), w is (batch, dim). Inside RTM every state is (tokens, batch, width): with the tokens first,
mixing tokens and mixing channels are each one matrix product over contiguous memory.
The mappers compute in the precision of their weights, also under autocast: they are small, and w needs the precision.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.core.errors import UserError
from rtm.models.layers import Linear, no_autocast, pixel_norm, relative_change, truncated_normal_

_STATE_SEED = 0  # the initial states are constants of the architecture, not of a run


def rms_norm(h: Tensor, axis: int, eps: float) -> Tensor:
    """RMSNorm without a learned scale; axis -1 are the channels, 0 the tokens."""
    if axis == -1:
        return F.rms_norm(h, h.shape[-1:], eps=eps)
    return h * torch.rsqrt(h.square().mean(axis, keepdim=True) + eps)


class SwiGLU(nn.Module):
    """h + down(silu(gate(h)) * up(h)) along the tokens or the channels of h (tokens, batch, width); no biases."""

    def __init__(
        self,
        size: int,
        axis: Literal[0, -1],
        expansion: float,
        round_to: int,
        lr_mul: float,
    ) -> None:
        super().__init__()
        self.axis = axis
        inner = math.ceil(round(expansion * size * 2 / 3) / round_to) * round_to
        self.gate_up = Linear(size, 2 * inner, bias=None, lr_mul=lr_mul)
        self.down = Linear(inner, size, bias=None, lr_mul=lr_mul)

    def forward(self, h: Tensor) -> Tensor:
        rows = h.flatten(1).T if self.axis == 0 else h.flatten(0, 1)  # (rest, size): each row is mixed
        of_gate, of_up = self.gate_up.effective().chunk(2)
        gate = rows @ of_gate.T  # two products, so that both results are contiguous
        up = rows @ of_up.T
        free = not torch.is_grad_enabled()  # without a graph, gate is not read again and can be overwritten
        active = F.silu(gate, inplace=free)
        inner = active.mul_(up) if free else active * up
        down = self.down.effective()
        if self.axis == 0:
            return torch.addmm(rows.T, down, inner.T).view(h.shape)
        return torch.addmm(rows, inner, down.T).view(h.shape)


class Attention(nn.Module):
    """h + self-attention over the tokens of h (tokens, batch, width): TRM's own block, ablated in App. D."""

    def __init__(self, width: int, heads: int, rope: bool, lr_mul: float) -> None:
        super().__init__()
        if width % (2 * heads if rope else heads):
            raise UserError(f"width {width} cannot be split over {heads} heads; choose heads that divide it.")
        self.heads = heads
        self.rope = rope
        self.qkv = Linear(width, 3 * width, bias=None, lr_mul=lr_mul)
        self.out = Linear(width, width, bias=None, lr_mul=lr_mul)

    def forward(self, h: Tensor) -> Tensor:
        qkv = self.qkv(h).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 1, 3, 0, 4).unbind()  # each (batch, heads, tokens, width / heads)
        if self.rope:
            q = rotate(q)
            k = rotate(k)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return h + cast(Tensor, self.out(mixed.permute(2, 0, 1, 3).flatten(2)))


def rotate(x: Tensor, base: float = 1e4) -> Tensor:
    """Rotary position code for x (..., tokens, size). The halves of each vector are real and imaginary parts."""
    tokens, size = x.shape[-2:]
    half = size // 2
    frequency = base ** -(torch.arange(half, device=x.device, dtype=x.dtype) / half)
    position = torch.arange(tokens, device=x.device, dtype=x.dtype)
    angle = position[:, None] * frequency  # (tokens, size / 2)
    cos = angle.cos()
    sin = angle.sin()
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Layer(nn.Module):
    """Token mixing, add, RMSNorm, channel mixing, add, RMSNorm (Fig. 3, right)."""

    def __init__(
        self,
        mix_tokens: nn.Module,
        mix_channels: nn.Module,
        token_norm_axis: int,
        eps: float,
    ) -> None:
        super().__init__()
        self.mix_tokens = mix_tokens
        self.mix_channels = mix_channels
        self.token_norm_axis = token_norm_axis
        self.eps = eps

    def forward(self, h: Tensor) -> Tensor:
        h = rms_norm(self.mix_tokens(h), self.token_norm_axis, self.eps)
        return rms_norm(self.mix_channels(h), -1, self.eps)


class Block(nn.Module):
    """The shared f(a, b) of Algorithm 1: one or more layers on the sum a + b (tokens, batch, width)."""

    def __init__(self, layers: list[Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        h = a + b
        for layer in self.layers:
            h = layer(h)
        return h


class RTM(nn.Module):
    """The Recursive Token Mapper: one small block f refines a handful of tokens H * (L + 1) times (Algorithm 1)."""

    initial_h: Tensor  # (width) or (tokens, 1, width)
    initial_l: Tensor

    def __init__(
        self,
        dim: int,  # d, the size of w
        tokens: int | None,  # s; None: dim / width
        width: int,  # d_h
        H: int,  # refinement steps
        L: int,  # inner cycles of a step
        block: Literal["mixer", "attention"] = "mixer",
        layers: int = 1,  # in f; TRM has 2
        expansion: float = 4,  # of the SwiGLUs, times 2/3
        in_dim: int | None = None,  # the size of z, if it is not dim
        round_to: int = 8,  # inner sizes are rounded up to a multiple of this; TRM: 256
        token_norm: Literal["channels", "tokens"] = "channels",  # RMSNorm after token mixing; TRM's mixer: tokens
        learnable_init: bool = False,  # train Z_H^init and Z_L^init
        init_per_token: bool = False,  # an initial state for each token instead of one for all
        gradient_steps: int = 1,  # last steps that keep a graph: 1 is the short gradient, H everything
        pixel_norm: bool = True,  # as in Fig. 3; Algorithm 1 leaves it out
        heads: int | None = None,  # of attention; by default one for each 64 channels
        rope: bool = False,  # rotary positions in attention
        lr_mul: float = 1.0,  # multiplier of the learning rate
        eps: float = 1e-5,  # of RMSNorm
    ) -> None:
        super().__init__()
        tokens = dim // width if tokens is None else tokens
        _require_positive(dim=dim, tokens=tokens, width=width, H=H, L=L, layers=layers, round_to=round_to)
        _require_positive(gradient_steps=gradient_steps, expansion=expansion, lr_mul=lr_mul)
        if learnable_init and gradient_steps < H:
            raise UserError(
                f"Learnable initial states get no gradient when only the last {gradient_steps} of {H} steps keep a "
                f"graph; set gradient_steps to {H} or learnable_init to false."
            )
        self.dim = dim
        self.in_dim = in_dim or dim
        self.tokens = tokens
        self.width = width
        self.H = H
        self.L = L
        self.gradient_steps = gradient_steps
        self.pixel_norm = pixel_norm

        def layer() -> Layer:
            mixers: dict[str, Callable[[], nn.Module]] = {
                "mixer": lambda: SwiGLU(tokens, 0, expansion, round_to, lr_mul),
                "attention": lambda: Attention(width, heads or max(1, width // 64), rope, lr_mul),
            }
            mix_channels = SwiGLU(width, -1, expansion, round_to, lr_mul)
            norm_axis = _choose("token_norm", token_norm, {"channels": -1, "tokens": 0})
            return Layer(_choose("block", block, mixers)(), mix_channels, norm_axis, eps)

        self.project = Linear(self.in_dim, tokens * width, lr_mul=lr_mul)
        self.block = Block([layer() for _ in range(layers)])
        self.readout = Linear(tokens * width, dim, lr_mul=lr_mul)
        if lr_mul != 1:
            self._equalise()
        shape = (tokens, 1, width) if init_per_token else (width,)
        generator = torch.Generator().manual_seed(_STATE_SEED)
        for name in ("initial_h", "initial_l"):
            drawn = truncated_normal_(torch.empty(shape, device="cpu"), 1.0, generator)
            state = torch.empty(shape).copy_(drawn)  # on the device that the module is built on
            if learnable_init:
                self.register_parameter(name, nn.Parameter(state))
            else:
                self.register_buffer(name, state)

    def _equalise(self) -> None:
        """Equalise the learning rates as StyleGAN2 does in its own mapper."""
        for name, part in self.named_modules():
            if isinstance(part, Linear):
                part.equalise(anew=False)
                if name.endswith((".down", ".out")):  # so that all applications together add as much as one
                    part.gain /= math.sqrt(self.H * (self.L + 1))

    def forward(
        self,
        z: Tensor,
        H: int | Tensor | None = None,
        tolerance: float | None = None,
        max_H: int | None = None,
    ) -> Tensor:
        """w (batch, dim) from z (batch, in_dim), by H steps, by default as in training. A tensor H (batch,) gives the
        steps of each sample. With a tolerance see `settle`."""
        with no_autocast(z):
            if tolerance is not None or isinstance(H, Tensor):
                most = max_H or self.H if H is None else H
                w, _ = self.settle(z, tolerance or 0.0, most)
                return w
            steps = self.H if H is None else H
            _require_positive(H=steps)
            Z_H, _, _ = self._refined(z, steps)
            return self.read(Z_H)

    def residual(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """w, and for each sample its distance from a fixed point: mean (Z_H(H + 1) - Z_H(H))^2 (batch,)."""
        with no_autocast(z):
            Z_H, Z_L, Z_0 = self._refined(z, self.H)
            after, _ = self._refine(Z_H, Z_L, Z_0, 1)
            return self.read(Z_H), (after - Z_H).square().mean((0, 2))

    @torch.no_grad()
    def settle(self, z: Tensor, tolerance: float, max_H: int | Tensor) -> tuple[Tensor, Tensor]:
        """w and the number of steps of each sample. A sample stops when a step changes its Z_H by less than the share
        `tolerance`, or after max_H steps. Finished samples leave the batch."""
        limit = torch.as_tensor(max_H, device=z.device).expand(len(z))
        _require_positive(max_H=int(limit.min()))
        Z_H, Z_L, Z_0 = self._started(z)
        settled = torch.empty_like(Z_H)
        steps = limit.clone()
        left = torch.arange(len(z), device=z.device)  # the samples that are still in the batch
        for step in range(1, int(limit.max()) + 1):
            before = Z_H
            Z_H, Z_L = self._refine(Z_H, Z_L, Z_0, 1)
            done = (relative_change(before, Z_H, (0, 2)) < tolerance) | (limit[left] == step)
            if done.any():
                settled[:, left[done]] = Z_H[:, done]
                steps[left[done]] = step
                left = left[~done]
                Z_H, Z_L, Z_0 = (state[:, ~done] for state in (Z_H, Z_L, Z_0))
            if not len(left):
                break
        return self.read(settled), steps

    def trajectory(self, z: Tensor) -> Iterator[Tensor]:
        """Z_H (tokens, batch, width) after each step, without end."""
        Z_H, Z_L, Z_0 = self._started(z)
        while True:
            Z_H, Z_L = self._refine(Z_H, Z_L, Z_0, 1)
            yield Z_H

    def read(self, Z_H: Tensor) -> Tensor:
        return cast(Tensor, self.readout(Z_H.transpose(0, 1).flatten(1)))  # line 12

    def _tokens(self, z: Tensor) -> Tensor:
        z = z.to(self.project.weight.dtype)
        if self.pixel_norm:
            z = pixel_norm(z)
        tokens = self.project(z).unflatten(1, (self.tokens, self.width))  # line 1
        return cast(Tensor, tokens.transpose(0, 1).contiguous())

    def _started(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Z_H, Z_L and Z_0 before the first step."""
        Z_0 = self._tokens(z)
        Z_H = self.initial_h.expand_as(Z_0).contiguous()  # line 2
        Z_L = self.initial_l.expand_as(Z_0).contiguous()
        return Z_H, Z_L, Z_0

    def _refined(self, z: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
        """Z_H, Z_L and Z_0 after the steps, the last of which keep a graph."""
        Z_H, Z_L, Z_0 = self._started(z)
        last = min(self.gradient_steps, steps)
        with torch.no_grad():  # without a graph, no step needs the detach of line 9
            Z_H, Z_L = self._refine(Z_H, Z_L, Z_0, steps - last)
        Z_H, Z_L = self._refine(Z_H, Z_L, Z_0, last)
        return Z_H, Z_L, Z_0

    def _refine(self, Z_H: Tensor, Z_L: Tensor, Z_0: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        for _ in range(steps):
            for _ in range(self.L):
                Z_L = self.block(Z_L, Z_H + Z_0)  # line 5
            Z_H = self.block(Z_H, Z_L)  # line 7
        return Z_H, Z_L


class MLPMapper(nn.Module):
    """PixelNorm, then `layers` times a fully connected layer with LeakyReLU (Fig. 3, left).

    lr_mul = 1 is the mapper of RS-IMLE; any other value is StyleGAN2's, with equalised learning rates (it has 0.01).
    """

    def __init__(
        self,
        dim: int,  # d, the size of w and of every layer
        layers: int,  # 8 in RS-IMLE; 2, 16 and 32 in the depth ablation
        lr_mul: float = 1.0,  # multiplier of the learning rate
        in_dim: int | None = None,  # the size of z, if it is not dim
        init: Literal["torch", "he"] = "torch",  # for lr_mul = 1: nn.Linear's own initialisation, or He's for LeakyReLU
        slope: float = 0.2,  # slope of LeakyReLU below zero
    ) -> None:
        super().__init__()
        _require_positive(dim=dim, layers=layers, lr_mul=lr_mul)
        self.dim = dim
        self.in_dim = in_dim or dim
        self.slope = slope
        equalised = lr_mul != 1
        self.act_gain = math.sqrt(2) if equalised else 1.0
        self.layers = nn.ModuleList()
        for fan_in in [self.in_dim] + [dim] * (layers - 1):
            layer = Linear(fan_in, dim, lr_mul=lr_mul)
            if equalised:
                layer.equalise()
            else:
                _choose("init", init, _MLP_INITS)(layer.weight)
            self.layers.append(layer)

    def forward(self, z: Tensor) -> Tensor:
        with no_autocast(z):
            w = pixel_norm(z.to(cast(Linear, self.layers[0]).weight.dtype))
            for layer in self.layers:
                w = F.leaky_relu(layer(w), self.slope) * self.act_gain
            return w


_MLP_INITS: dict[str, Callable[[Tensor], Tensor]] = {
    "torch": partial(nn.init.kaiming_uniform_, a=math.sqrt(5)),
    "he": partial(nn.init.kaiming_normal_, a=0.2),
}


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if value <= 0:
            raise UserError(f"{name} is {value}; it must be positive.")


T = TypeVar("T")


def _choose(name: str, value: str, options: dict[str, T]) -> T:
    if value not in options:
        raise UserError(f"{name} is {value!r}; choose one of {', '.join(options)}.")
    return options[value]
