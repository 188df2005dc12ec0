"""A generator from its checkpoint, and images from integers.

Everything random about image i is a function of (seed, i): z, spatial noise and, with classes, the label.
Two experiments with the same dim share the noise of image i.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from rtm.config.architecture import Architecture
from rtm.core.devices import allow_tf32
from rtm.core.errors import UserError
from rtm.core.files import reading
from rtm.core.pixels import to_pixels
from rtm.core.randomness import normal, normals, seed_of
from rtm.models.layers import Noise
from rtm.models.registry import build_generator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def load_generator(architecture: Architecture, checkpoint: Path, device: torch.device) -> nn.Module:
    if not checkpoint.exists():
        raise UserError(f"{checkpoint} is missing; train it, or get it with `dvc pull {checkpoint.parent}`.")
    allow_tf32(architecture.tf32)
    generator = build_generator(architecture)
    with reading(checkpoint, f"bring it back with `dvc checkout {checkpoint}`, or train it again"):
        weights = load_file(checkpoint)
        assert all(bool(each.isfinite().all()) for each in weights.values()), "not finite"
    try:
        generator.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"{checkpoint} does not fit the parameters in params/; train it again.") from None
    return generator.to(device).eval().requires_grad_(False)


def latents(seed: int, index: Tensor, dim: int) -> Tensor:
    return normal(seed_of(seed, "z"), index, dim)


def noise_of(seed: int, index: Tensor) -> Noise:
    def maps(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        flat = normals([(seed_of(seed, "noise", *which), which[0] ** 2) for which in wanted], index)
        return [rows.view(-1, 1, which[0], which[0]) for rows, which in zip(flat, wanted, strict=True)]

    return maps


def labels_of(seed: int, index: Tensor, classes: int) -> Tensor | None:
    """Uniformly distributed labels of images `index`; None without classes."""
    if not classes:
        return None
    uniform = 0.5 * (1 + torch.erf(normal(seed_of(seed, "label"), index, 1)[:, 0].double() / 2**0.5))
    return (uniform * classes).long().clamp(max=classes - 1)


@torch.no_grad()
def draw(
    generator: nn.Module,
    architecture: Architecture,
    seed: int,
    index: Tensor,
    z: Tensor | None = None,  # instead of the latents of `index`
    labels: Tensor | None = None,  # instead of the labels of `index`
    **options: float | Tensor,  # the depth of a recursive mapper (by default as in training); StyleGAN2's truncation
) -> Tensor:
    """Images `index` of a seed, uint8 (batch, R, R, 3)."""
    z = latents(seed, index, architecture.dim) if z is None else z
    labels = labels_of(seed, index, architecture.classes) if labels is None else labels
    images = generator(z, labels=labels, noise=noise_of(seed, index), **options)
    return to_pixels(images).permute(0, 2, 3, 1)


def draw_many(
    generator: nn.Module, architecture: Architecture, seed: int, number: int, batch: int, device: torch.device
) -> "NDArray[np.uint8]":
    """The first images of a seed, in batches."""
    indices = torch.arange(number, device=device).split(batch)
    return torch.cat([draw(generator, architecture, seed, index).cpu() for index in indices]).numpy()


def slerp(first: Tensor, second: Tensor, t: Tensor) -> Tensor:
    """Interpolate on the great circle; the lengths are interpolated linearly: (len(t), dim)."""
    angle = torch.arccos((first @ second / (first.norm() * second.norm())).clamp(-1, 1))
    weights = torch.stack([torch.sin((1 - t) * angle), torch.sin(t * angle)], 1) / torch.sin(angle)
    return weights @ torch.stack([first, second])
