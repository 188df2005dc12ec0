"""Drawing: the seed and number of an image determine all its random parts, and slerp moves evenly."""

import math

import pytest
import torch
from support import smoke_workspace
from support.checkpoints import GAN, IMLE
from torch import Tensor
from torch.testing import assert_close

from rtm.models.drawing import draw, draw_many, labels_of, latents, noise_of, slerp, strip
from rtm.models.registry import build_generator

WANTED = ((4, 0), (8, 0), (8, 1))
CPU = torch.device("cpu")


def random_parts(seed: int, index: Tensor) -> list[Tensor]:
    labels = labels_of(seed, index, 1000)
    assert labels is not None
    return [latents(seed, index, 6), labels, *noise_of(seed, index)(WANTED)]


def test_an_images_randomness_depends_on_its_seed_and_number_alone() -> None:
    some = torch.tensor([17, 3])
    parts = zip(
        random_parts(5, torch.arange(20)),
        random_parts(5, some),
        random_parts(6, some),
        strict=True,
    )
    for whole, same, other in parts:
        assert torch.equal(whole[some], same)
        assert not torch.equal(same, other)


def test_noise_of_each_layer_is_its_own_whichever_are_asked_for_together() -> None:
    index = torch.arange(50)
    maps = noise_of(0, index)(WANTED)
    for which, together in zip(WANTED, maps, strict=True):
        assert together.shape == (50, 1, which[0], which[0])
        assert torch.equal(noise_of(0, index)([which])[0], together)
    correlation = torch.corrcoef(torch.stack([maps[1].flatten(), maps[2].flatten()]))[0, 1]
    assert abs(correlation.item()) < 0.06  # of 3,200 numbers


def test_labels_are_uniform() -> None:
    labels = labels_of(0, torch.arange(20_000), 10)
    assert labels is not None
    assert labels_of(0, torch.arange(3), 0) is None
    shares = torch.bincount(labels, minlength=10) / 20_000
    assert len(shares) == 10
    assert (shares - 0.1).abs().max() < 0.01  # more than four standard deviations


def test_slerp_turns_and_stretches_evenly() -> None:
    """In the plane it goes from 0 to 90 degrees at length 1; the latents have different lengths."""
    t = torch.linspace(0, 1, 5)
    angles = t * math.pi / 2
    path = slerp(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), t)
    assert_close(path, torch.stack([angles.cos(), angles.sin()], 1))
    index, z = strip(0, 3, 5, 64, CPU)
    assert_close(z[[0, -1]], latents(0, torch.tensor([3, 4]), 64))
    assert index.tolist() == [3] * 5
    shortest = min(z[0].norm(), z[-1].norm())
    assert (z.norm(dim=1) > 0.99 * shortest).all()  # a straight line would come nearer to the origin


@pytest.mark.parametrize("name", [IMLE, GAN])
def test_many_are_drawn_as_one_by_one_and_given_parts_replace_drawn_ones(name: str) -> None:
    architecture = smoke_workspace.experiment(name).architecture
    generator = build_generator(architecture).eval()
    index = torch.arange(7)
    many = torch.from_numpy(draw_many(generator, architecture, 3, 7, 3, CPU))
    assert many.shape == (7, 8, 8, 3)
    assert many.dtype == torch.uint8
    z = latents(3, index, architecture.dim)
    labels = labels_of(3, index, architecture.classes)
    for same in (draw(generator, architecture, 3, index), draw(generator, architecture, 3, index, z, labels)):
        assert (same.int() - many.int()).abs().max() <= 1  # another batch size may round differently
    other = draw(generator, architecture, 3, index, z=z.flip(0))
    assert (other.int() - many.int()).abs().max() > 1


def test_a_depth_may_differ_for_each_image() -> None:
    architecture = smoke_workspace.experiment(IMLE).architecture
    generator = build_generator(architecture).eval()
    steps = torch.tensor([1, 5, 1, 5, 1])
    mixed = draw_many(generator, architecture, 0, 5, 2, CPU, H=steps)
    for depth in (1, 5):
        alike = draw_many(generator, architecture, 0, 5, 2, CPU, H=depth)
        assert abs(mixed[steps == depth].astype(int) - alike[steps == depth]).max() <= 1
