"""Drawing: the seed and number of an image determine all its random parts, and slerp moves evenly."""

import math

import pytest
import torch
from support import smoke_workspace
from support.checkpoints import GAN, IMLE
from torch import Tensor

from rtm.models.drawing import draw, draw_many, labels_of, latents, noise_of, slerp
from rtm.models.registry import build_generator

WANTED = ((4, 0), (8, 0), (8, 1))


def test_an_images_randomness_depends_on_its_seed_and_number_alone() -> None:
    index, some = torch.arange(20), torch.tensor([17, 3])
    noise = noise_of(5, index)(WANTED)
    for whole, part, other in (
        (latents(5, index, 6), latents(5, some, 6), latents(6, some, 6)),
        (labels_of(5, index, 1000), labels_of(5, some, 1000), labels_of(6, some, 1000)),
        *zip(noise, noise_of(5, some)(WANTED), noise_of(6, some)(WANTED), strict=True),
    ):
        assert isinstance(whole, Tensor) and isinstance(part, Tensor) and isinstance(other, Tensor)
        assert torch.equal(whole[some], part) and not torch.equal(part, other)


def test_noise_of_each_layer_is_its_own_whichever_are_asked_for_together() -> None:
    index = torch.arange(50)
    maps = noise_of(0, index)(WANTED)
    assert [tuple(each.shape) for each in maps] == [(50, 1, 4, 4), (50, 1, 8, 8), (50, 1, 8, 8)]
    for which, together in zip(WANTED, maps, strict=True):
        assert torch.equal(noise_of(0, index)([which])[0], together)
    correlation = torch.corrcoef(torch.stack([maps[1].flatten(), maps[2].flatten()]))[0, 1]
    assert abs(correlation.item()) < 0.06  # of 3,200 numbers


def test_labels_are_uniform() -> None:
    labels = labels_of(0, torch.arange(20_000), 10)
    assert labels is not None and labels_of(0, torch.arange(3), 0) is None
    shares = torch.bincount(labels, minlength=10) / 20_000
    assert len(shares) == 10 and (shares - 0.1).abs().max() < 0.01  # more than four standard deviations


def test_slerp_turns_and_stretches_evenly() -> None:
    """In the plane it goes from 0 to 90 degrees at length 1; the latents have different lengths."""
    t = torch.linspace(0, 1, 5)
    circle = slerp(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), t)
    angles = t * math.pi / 2
    torch.testing.assert_close(circle, torch.stack([angles.cos(), angles.sin()], 1))
    first, second = latents(0, torch.arange(2), 64)
    path = slerp(first, second, t)
    torch.testing.assert_close(path[[0, -1]], torch.stack([first, second]))
    shortest = min(first.norm(), second.norm())
    assert (path.norm(dim=1) > 0.99 * shortest).all()  # a straight line would come nearer to the origin
    assert torch.lerp(first, second, 0.5).norm() < 0.9 * shortest


@pytest.mark.parametrize("name", [IMLE, GAN])
def test_many_are_drawn_as_one_by_one_and_given_parts_replace_drawn_ones(name: str) -> None:
    torch.manual_seed(0)
    architecture = smoke_workspace.experiment(name).architecture
    generator, index = build_generator(architecture).eval(), torch.arange(7)
    many = torch.from_numpy(draw_many(generator, architecture, 3, 7, 3, torch.device("cpu")))
    assert many.shape == (7, 8, 8, 3) and many.dtype == torch.uint8
    z, labels = latents(3, index, architecture.dim), labels_of(3, index, architecture.classes)
    for same in (draw(generator, architecture, 3, index), draw(generator, architecture, 3, index, z, labels)):
        assert (same.int() - many.int()).abs().max() <= 1  # another batch size may round differently
    other = draw(generator, architecture, 3, index, z=z.flip(0))
    assert (other.int() - many.int()).abs().max() > 1
