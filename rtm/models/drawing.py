"""Images from integers: everything random about image i is a function of (seed, i): z, spatial noise, the label.

Two experiments with the same dim share the noise of image i.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from rtm.config.architecture import Architecture
from rtm.core.pixels import to_pixels
from rtm.core.randomness import normal, normals, seed_of
from rtm.models.layers import Noise

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def latents(seed: int, index: Tensor, dim: int) -> Tensor:
    return normal(seed_of(seed, "z"), index, dim)


def noise_of(seed: int, index: Tensor) -> Noise:
    def maps(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        sizes = [(seed_of(seed, "noise", *which), which[0] ** 2) for which in wanted]
        rows = normals(sizes, index)
        return [flat.view(-1, 1, which[0], which[0]) for flat, which in zip(rows, wanted, strict=True)]

    return maps


def labels_of(seed: int, index: Tensor, classes: int) -> Tensor | None:
    """Uniformly distributed labels of images `index`; None without classes."""
    if not classes:
        return None
    x = normal(seed_of(seed, "label"), index, 1)[:, 0].double()
    uniform = 0.5 * (1 + torch.erf(x / 2**0.5))
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
    if z is None:
        z = latents(seed, index, architecture.dim)
    if labels is None:
        labels = labels_of(seed, index, architecture.classes)
    images = generator(z, labels=labels, noise=noise_of(seed, index), **options)
    return to_pixels(images).permute(0, 2, 3, 1)


def draw_batches(
    generator: nn.Module,
    architecture: Architecture,
    seed: int,
    count: int,
    batch: int,
    device: torch.device,
    **depth: float | Tensor,  # a tensor has a value for each image
) -> Iterator[Tensor]:
    """The first images of a seed, a batch at a time, on the CPU."""
    for index in torch.arange(count, device=device).split(batch):
        options: dict[str, Any] = dict(depth)
        for name, value in depth.items():
            if isinstance(value, Tensor):
                options[name] = value[index]
        yield draw(generator, architecture, seed, index, **options).cpu()


def draw_many(
    generator: nn.Module,
    architecture: Architecture,
    seed: int,
    count: int,
    batch: int,
    device: torch.device,
    **depth: float | Tensor,
) -> "NDArray[np.uint8]":
    """The first images of a seed in one array."""
    return torch.cat(list(draw_batches(generator, architecture, seed, count, batch, device, **depth))).numpy()


def slerp(first: Tensor, second: Tensor, t: Tensor) -> Tensor:
    """Interpolate on the great circle; the lengths are interpolated linearly: (len(t), dim)."""
    cosine = first @ second / (first.norm() * second.norm())
    angle = torch.arccos(cosine.clamp(-1, 1))
    weights = torch.stack([torch.sin((1 - t) * angle), torch.sin(t * angle)], 1) / torch.sin(angle)
    return weights @ torch.stack([first, second])


def strip(
    seed: int,
    number: int,
    frames: int,
    dim: int,
    device: torch.device,
) -> tuple[Tensor, Tensor]:
    """The inputs of frames from an image to the next one: `index`, so that all have the noise and the label of the
    first image, and latents on the great circle."""
    first, second = latents(seed, torch.tensor([number, number + 1], device=device), dim)
    z = slerp(first, second, torch.linspace(0, 1, frames, device=device))
    return torch.full((frames,), number, device=device), z
