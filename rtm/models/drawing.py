"""A generator from its checkpoint, and images from integers.

Everything random about image i is a function of (seed, i): z, spatial noise and, with classes, the label.
Two experiments with the same dim share the noise of image i.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from rtm.config import Experiment
from rtm.core.devices import allow_tf32
from rtm.core.errors import UserError
from rtm.core.files import reading
from rtm.core.randomness import normal, normals, seed_of
from rtm.data.datasets import to_pixels
from rtm.models.layers import Noise
from rtm.models.registry import build_generator


def load_generator(experiment: Experiment, checkpoint: Path, device: torch.device) -> nn.Module:
    if not checkpoint.exists():
        raise UserError(f"{checkpoint} is missing; train it, or get it with `dvc pull {checkpoint.parent}`.")
    allow_tf32(experiment.recipe.training.tf32)
    generator = build_generator(experiment)
    with reading(checkpoint, f"bring it back with `dvc checkout {checkpoint}`, or train {experiment.name} again"):
        weights = load_file(checkpoint)
        assert all(bool(each.isfinite().all()) for each in weights.values()), "not finite"
    try:
        generator.load_state_dict(weights)
    except RuntimeError:
        raise UserError(f"{checkpoint} does not fit the parameters of {experiment.name}; train it again.") from None
    return generator.to(device).eval().requires_grad_(False)


def classes_of(experiment: Experiment) -> int:
    """The number of classes that the generator is conditioned on; 0 if it is unconditional."""
    gan = experiment.recipe.stylegan2
    return experiment.dataset.classes if gan and gan.conditional else 0


def latents(seed: int, index: Tensor, dim: int) -> Tensor:
    return normal(seed_of(seed, "z"), index, dim)


def noise_of(seed: int, index: Tensor) -> Noise:
    def maps(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        flat = normals([(seed_of(seed, "noise", *which), which[0] ** 2) for which in wanted], index)
        return [rows.view(-1, 1, which[0], which[0]) for rows, which in zip(flat, wanted, strict=True)]

    return maps


def labels_of(seed: int, index: Tensor, classes: int) -> Tensor | None:
    """Uniform labels."""
    if not classes:
        return None
    uniform = 0.5 * (1 + torch.erf(normal(seed_of(seed, "label"), index, 1)[:, 0].double() / 2**0.5))
    return (uniform * classes).long().clamp(max=classes - 1)


@torch.no_grad()
def draw(
    generator: nn.Module,
    experiment: Experiment,
    seed: int,
    index: Tensor,
    z: Tensor | None = None,  # instead of the latents of `index`
    **depth: float | Tensor,  # of a recursive mapper, if not that of training
) -> Tensor:
    """Images `index` of a seed, uint8 (batch, R, R, 3)."""
    z = latents(seed, index, experiment.recipe.dim) if z is None else z
    labels = labels_of(seed, index, classes_of(experiment))
    images = generator(z, labels=labels, noise=noise_of(seed, index), **depth)
    return to_pixels(images).permute(0, 2, 3, 1)


def draw_many(
    generator: nn.Module, experiment: Experiment, seed: int, number: int, device: torch.device
) -> NDArray[np.uint8]:
    """The first images of a seed, in batches."""
    indices = torch.arange(number, device=device).split(experiment.recipe.evaluation.batch)
    return torch.cat([draw(generator, experiment, seed, index).cpu() for index in indices]).numpy()
