"""Losses, regularisers and schedules of StyleGAN2 ("SG2") and StyleGAN2-ADA, as pure functions."""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def generator_loss(fake_logits: Tensor) -> Tensor:
    """Non-saturating logistic loss."""
    return F.softplus(-fake_logits).mean()


def discriminator_loss(real_logits: Tensor, fake_logits: Tensor) -> Tensor:
    of_reals = F.softplus(-real_logits).mean()
    of_fakes = F.softplus(fake_logits).mean()
    return of_reals + of_fakes


def r1_penalty(real_logits: Tensor, reals: Tensor) -> Tensor:
    """1/2 E |grad D(x)|^2 at the real images, for gamma to multiply."""
    (gradient,) = torch.autograd.grad(real_logits.sum(), reals, create_graph=True)
    return gradient.square().sum((1, 2, 3)).mean() / 2


def path_lengths(images: Tensor, ws: Tensor, y: Tensor) -> Tensor:
    """|J_w^T y| of SG2 Eq. 4, where y is standard normal with the images' shape. Squares are averaged over the layers'
    w."""
    height, width = images.shape[2:]
    projection = (images * y).sum() / (height * width) ** 0.5
    (gradient,) = torch.autograd.grad(projection, ws, create_graph=True)  # (batch, num_ws, dim)
    return gradient.square().sum(2).mean(1).sqrt()


def path_penalty(lengths: Tensor, target: Tensor) -> Tensor:
    """E (length - a)^2, where a is the running mean `target` (SG2 Eq. 4)."""
    return (lengths - target).square().mean()


def path_target(target: Tensor, mean_length: Tensor, decay: float = 0.99) -> Tensor:
    """The running mean a, moved towards the mean length of this step. As in StyleGAN2's own code, the gradient goes
    through it."""
    return target.lerp(mean_length, 1 - decay)


def lazy_adam(
    params: Iterable[Tensor] | Iterable[dict[str, Any]],  # groups may have their own lr
    lr: float,
    betas: tuple[float, float],
    interval: int,  # the regulariser has its own update after this many steps
) -> torch.optim.Adam:
    """Adam that moves as far in interval + 1 updates as it would in interval (SG2 App. B, lazy regularisation)."""
    share = interval / (interval + 1)
    first, second = betas
    powers = (first**share, second**share)
    optimiser = torch.optim.Adam(params, lr=lr, betas=powers, eps=1e-8, fused=True)
    for group in optimiser.param_groups:
        group["lr"] *= share
    return optimiser


def ema_decay(
    batch: int,  # images in a step, over all processes
    images: int,  # seen so far
    half_life: float,  # in images
    rampup: float | None = None,  # the half-life is at most this share of the images seen
) -> float:
    """Decay of the generator's moving average for one step: 0.5 once half_life images have passed."""
    if rampup is not None:
        half_life = min(half_life, rampup * images)
    return float(0.5 ** (batch / max(half_life, 1e-8)))
