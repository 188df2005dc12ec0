"""StyleGAN2's code around a mapper: labels, the running mean of w, one style for each layer, truncation."""

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.config.classes import imported
from rtm.core.errors import UserError
from rtm.models.layers import Linear, no_autocast, pixel_norm


class LabelEmbedding(nn.Module):
    """A normalised linear embedding of class labels, to stand beside a normalised z."""

    def __init__(self, classes: int, dim: int) -> None:
        super().__init__()
        self.classes = classes
        self.linear = Linear(classes, dim, equalised=True)

    def forward(self, labels: Tensor) -> Tensor:
        """Labels are numbers (batch), or rows (batch, classes) that are one-hot or mix classes."""
        rows = F.one_hot(labels, self.classes) if labels.ndim == 1 else labels
        return pixel_norm(self.linear(rows.to(self.linear.weight.dtype)))


class StyleMapping(nn.Module):
    """Any mapper in a StyleGAN: in ours, or in another one by `G.mapping = StyleMapping.rtm(...)` (docs/extending.md).

    It is called like StyleGAN's mapping: (z, c, truncation_psi, ...) -> ws (batch, num_ws, dim). With labels, the
    mapper's input is PixelNorm(z) beside PixelNorm(embedding of c), so build it with in_dim = z_dim + dim.
    """

    w_avg: Tensor  # the running mean of w, which truncation needs

    def __init__(
        self,
        mapper: nn.Module,  # (batch, in_dim) -> w (batch, dim)
        num_ws: int,  # layers that take a style
        c_dim: int = 0,  # classes; 0: unconditional
        w_avg_beta: float = 0.998,  # decay of the running mean
        dim: int | None = None,  # the size of w, if the mapper has no attribute `dim`
        ignore_labels: bool = False,  # whether an unconditional mapping ignores labels; otherwise they are an error
    ) -> None:
        super().__init__()
        self.mapper = mapper
        self.num_ws = num_ws
        self.c_dim = c_dim
        self.w_avg_beta = w_avg_beta
        self.ignore_labels = ignore_labels
        self.w_dim = cast(int, mapper.dim) if dim is None else dim
        if c_dim and getattr(mapper, "in_dim", math.inf) <= self.w_dim:
            raise UserError(f"A mapper with labels takes z and their embedding; build it with in_dim={2 * self.w_dim}.")
        self.embedding = LabelEmbedding(c_dim, self.w_dim) if c_dim else None
        self.register_buffer("w_avg", torch.zeros(self.w_dim))

    @classmethod
    def rtm(
        cls,
        z_dim: int,
        c_dim: int,
        w_dim: int,
        num_ws: int,
        ignore_labels: bool = False,
        **options: Any,
    ) -> "StyleMapping":
        """RTM with the arguments of a StyleGAN's own mapping network. Such a generator is trained at one learning rate.
        With the default `lr_mul`, a step moves w as far as with StyleGAN's 2-layer MLP. `options` go to `RTM`."""
        options = {"tokens": None, "width": 128, "H": 16, "L": 1, "lr_mul": 0.004, **options}
        in_dim = z_dim + w_dim if c_dim else z_dim
        mapper = imported("rtm.models.mappers:RTM")(w_dim, in_dim=in_dim, **options)
        return cls(mapper, num_ws, c_dim, ignore_labels=ignore_labels)

    def forward(
        self,
        z: Tensor,  # (batch, z_dim)
        c: Tensor | None = None,  # labels, see `LabelEmbedding`
        truncation_psi: float = 1.0,  # 1 keeps w, 0 is the mean style
        truncation_cutoff: int | None = None,  # truncate only this many of the first layers
        update_emas: bool = True,  # the running mean moves in training mode only
        skip_w_avg_update: bool = False,
    ) -> Tensor:
        w = self.map(z, c)
        if self.training and update_emas and not skip_w_avg_update:
            self.track(w.detach())
        ws = self.truncate(self.styles(w), truncation_psi, truncation_cutoff)
        return ws.contiguous()  # users may write into it

    def map(self, z: Tensor, c: Tensor | None = None, **depth: float | Tensor) -> Tensor:
        """z to w. `depth` has a recursive mapper's H, or its tolerance and max_H."""
        with no_autocast(z):
            return cast(Tensor, self.mapper(self.conditioned(z, c), **depth))

    def conditioned(self, z: Tensor, c: Tensor | None) -> Tensor:
        if self.embedding is None:
            if c is not None and c.numel() and not self.ignore_labels:
                raise UserError("This mapping would ignore its labels; build it with c_dim, the number of classes.")
            return z
        if c is None:
            raise UserError(f"This mapping is conditional; pass labels c of {self.c_dim} classes.")
        return torch.cat([pixel_norm(z), self.embedding(c)], dim=1)

    def styles(self, w: Tensor, mixing: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """One w for all layers or, with `mixing` = (w2, crossover), w2 from layer crossover[i] on for sample i."""
        ws = w[:, None].expand(-1, self.num_ws, -1)
        if mixing is None:
            return ws
        other, crossover = mixing
        layer = torch.arange(self.num_ws, device=w.device)
        before = layer < crossover[:, None]
        return torch.where(before[:, :, None], ws, other[:, None])

    def truncate(self, ws: Tensor, psi: float, cutoff: int | None = None) -> Tensor:
        if psi == 1:
            return ws
        first = ws[:, :cutoff]
        rest = ws[:, first.shape[1] :]
        return torch.cat([self.w_avg.lerp(first, psi), rest], 1)

    @torch.no_grad()
    def track(self, w: Tensor) -> None:
        """Move the running mean towards the mean of a (global) batch of w."""
        self.w_avg.lerp_(w.mean(0), 1 - self.w_avg_beta)
