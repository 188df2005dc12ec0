"""The ADA augmentations: single transformations against references, groups against the formulas of the paper."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.testing import assert_close

from rtm.methods.stylegan2 import augment as ada
from rtm.methods.stylegan2.augment import (
    SYM6,
    Augment,
    adapt,
    blit_places,
    colours,
    geometry_places,
    rotate,
    scale,
    translate,
)

Matrix = NDArray[np.float64]
SIZE = 12
SOME = torch.arange(64)


def pictures(batch: int, size: int = SIZE) -> Tensor:
    return torch.rand(batch, 3, size, size) * 2 - 1


def numbers(*values: float) -> Tensor:
    return torch.tensor(values)


def every(batch: int) -> Tensor:
    return torch.ones(batch, dtype=torch.bool)


def test_no_strength_is_the_identity_to_the_last_bit() -> None:
    images = pictures(64)
    assert torch.equal(Augment()(images, 0.0, seed=3, index=SOME), images)
    assert torch.equal(Augment()(images, torch.tensor(0.0), seed=3, index=SOME), images)


def test_randomness_belongs_to_the_sample() -> None:
    """It is the same however the batch is cut, so with any number of processes. Another seed gives other randomness."""
    augment = Augment()
    images = pictures(64)
    whole = augment(images, 0.7, 5, SOME)
    parts = torch.cat([augment(images[part], 0.7, 5, SOME[part]) for part in (slice(0, 10), slice(10, 64))])
    assert_close(whole, parts, rtol=0, atol=1e-5)
    assert not torch.allclose(whole, augment(images, 0.7, 6, SOME))


@pytest.mark.slow(seconds=4)
def test_every_transformation_happens_as_often_as_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has probability p, except the two rotations: at least one of them happens with probability p."""
    gates: list[Tensor] = []

    def remember(on: Tensor, draws: Tensor, *rest: int) -> Tensor:
        gates.append(on.float())
        return torch.eye(3).expand(len(on), 3, 3)

    monkeypatch.setattr(ada, "blit_places", remember)
    monkeypatch.setattr(ada, "geometry_places", remember)
    monkeypatch.setattr(ada, "colours", lambda on, draws: (remember(on, draws), torch.zeros(len(on))))
    Augment()(pictures(20_000, size=4), 0.36, 1, torch.arange(20_000))
    expected = [[0.36] * 3, [0.36, 0.2, 0.36, 0.2, 0.36], [0.36] * 5]
    for on, rates in zip(gates, expected, strict=True):
        assert on.mean(0).tolist() == pytest.approx(rates, abs=0.015)
    turned = gates[1][:, [1, 3]].amax(1).mean().item()
    assert turned == pytest.approx(0.36, abs=0.015)
    everything = torch.cat(gates, dim=1)
    correlation = torch.corrcoef(everything.T) - torch.eye(13)
    assert correlation.abs().max() < 0.04  # they are independent of each other


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (scale(numbers(-1.0), numbers(1.0)), lambda x: x.flip(3)),
        (rotate(numbers(math.pi / 2)), lambda x: x.rot90(1, (2, 3))),
        (rotate(numbers(math.pi)), lambda x: x.flip(2, 3)),
        (translate(numbers(2.0), numbers(-1.0)), lambda x: F.pad(x, (0, 2, 1, 0), mode="reflect")[:, :, :-1, 2:]),
    ],
    ids=["flip", "quarter turn", "half turn", "shift"],
)
def test_blitting_copies_pixels(places: Tensor, expected: object) -> None:
    images = pictures(1)
    assert callable(expected)
    assert torch.equal(Augment.blit(images, places, every(1)), expected(images))


def test_blit_parameters() -> None:
    """Half of the flips mirror the image. Quarter turns are uniform; shifts are whole pixels, uniform up to an eighth
    of the image."""
    draws = torch.randn(4000, 4)
    off = torch.zeros(4000, dtype=torch.bool)
    only = [torch.stack([off] * k + [every(4000)] + [off] * (2 - k), 1) for k in range(3)]
    flips = blit_places(only[0], draws, 32)[:, 0, 0]
    assert set(flips.tolist()) == {-1, 1}
    assert abs(flips.mean().item()) < 0.05
    turns = blit_places(only[1], draws, 32).round()
    assert len({tuple(turn[0].tolist()) for turn in turns}) == 4
    assert_close(
        turns[:, :2, :2].mean(0),
        torch.zeros(2, 2),
        rtol=0,
        atol=0.05,
    )
    shifts = blit_places(only[2], draws, 32)[:, :2, 2]
    assert set(shifts.flatten().tolist()) == set(range(-4, 5))
    assert shifts.std().item() == pytest.approx(8 / math.sqrt(12), rel=0.05)


def test_geometry_leads_back_through_the_steps_of_the_paper() -> None:
    """The places are the inverse of ADA's G, which is multiplied here step by step in float64."""
    draws = torch.randn(50, 6)
    places = geometry_places(torch.ones(50, 5, dtype=torch.bool), draws, size=32)
    uniform = torch.special.ndtr(draws.double()).numpy()
    for sample, d in enumerate(draws.double().numpy()):
        s = math.exp(0.2 * math.log(2) * d[0])
        r = math.exp(0.2 * math.log(2) * d[2])
        G = np.diag([s, s, 1])
        G = turn((2 * uniform[sample, 1] - 1) * math.pi) @ G
        G = np.diag([r, 1 / r, 1]) @ G
        G = turn((2 * uniform[sample, 3] - 1) * math.pi) @ G
        G = np.array([[1, 0, 4 * d[4]], [0, 1, 4 * d[5]], [0, 0, 1]]) @ G  # 0.125 * 32 pixels
        np.testing.assert_allclose(places[sample], np.linalg.inv(G), rtol=1e-3, atol=1e-4)


def turn(angle: float) -> Matrix:
    cos = math.cos(angle)
    sin = math.sin(angle)
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])


def test_the_wavelet_filter() -> None:
    """It is orthogonal to its even shifts and has six vanishing moments. Only Daubechies' filters of this length do."""
    h = np.array(SYM6)
    assert h.sum() == pytest.approx(math.sqrt(2), abs=1e-12)
    for shift in range(6):
        assert (h[2 * shift :] * h[: 12 - 2 * shift]).sum() == pytest.approx(float(shift == 0), abs=1e-11)
    signs = (-1.0) ** np.arange(12)
    for moment in range(6):
        assert (signs * np.arange(12.0) ** moment * h).sum() == pytest.approx(0, abs=1e-8)
    assert round((np.arange(12) * h).sum() / h.sum()) == ada.CENTRE


def slow_warp(image: Matrix, places: Matrix) -> Matrix:
    """Warp one channel by the steps of ADA App. B in float64: pad by reflection as far as possible, filter at twice the
    resolution, look up with loops (zero outside the padded image), filter back."""
    size = len(image)
    last = len(image) - 1
    half = (len(image) - 1) / 2
    order = [*range(last, 0, -1), *range(size), *range(last - 1, -1, -1)]
    upwards = np.zeros((2 * len(order), len(order)))
    for k in range(len(order)):
        for tap in range(12):
            if 0 <= 2 * k - 5 + tap < len(upwards):
                upwards[2 * k - 5 + tap, k] = math.sqrt(2) * SYM6[tap]
    fine = upwards @ image[order][:, order] @ upwards.T
    fine = np.pad(fine, 1)  # zeros for the interpolation at the edge
    seen = np.zeros((2 * size + 10, 2 * size + 10))
    for i in range(len(seen)):
        for j in range(len(seen)):
            x, y, _ = places @ np.array([(j - 5) / 2 - half, (i - 5) / 2 - half, 1])
            x, y = (min(max(2 * (at + half + last) + 1, 0), len(fine) - 1.001) for at in (x, y))
            left = int(x)
            top = int(y)
            a = x % 1
            b = y % 1
            upper = (1 - a) * fine[top, left] + a * fine[top, left + 1]
            lower = (1 - a) * fine[top + 1, left] + a * fine[top + 1, left + 1]
            seen[i, j] = (1 - b) * upper + b * lower
    coarse = np.zeros((size, 2 * size + 10))
    for k in range(size):
        coarse[k, 2 * k : 2 * k + 12] = np.array(SYM6) / math.sqrt(2)
    return np.asarray(coarse @ seen @ coarse.T)


def test_warp_against_matrices_and_loops() -> None:
    images = pictures(4).double()
    places = geometry_places(torch.ones(4, 5, dtype=torch.bool), torch.randn(4, 6), SIZE)
    warped = Augment().double().warp(images, places)
    for sample in range(4):
        for channel in range(3):
            expected = slow_warp(images[sample, channel].numpy(), places[sample].double().numpy())
            np.testing.assert_allclose(warped[sample, channel], expected, atol=1e-5)


@pytest.mark.parametrize("p", [0.2, 0.6, 1.0])
def test_blits_and_geometry_are_one_transform_of_the_padded_original(p: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the paper, the product of all steps maps to the original image, also where a shift uncovered its edge."""
    steps: dict[str, tuple[Tensor, Tensor]] = {}

    def remember(name: str) -> None:
        places_of = getattr(ada, name)

        def remembered(on: Tensor, draws: Tensor, size: int) -> Tensor:
            steps[name] = on.any(1), places_of(on, draws, size)
            return steps[name][1]

        monkeypatch.setattr(ada, name, remembered)

    remember("blit_places")
    remember("geometry_places")
    monkeypatch.setattr(ada, "colours", lambda on, _: (torch.eye(3).expand(len(on), 3, 3), torch.zeros(len(on))))
    images = F.interpolate(pictures(32, 5), size=SIZE, mode="bicubic")
    out = Augment()(images, p, 11, torch.arange(32))
    (_, blit), (warped, geometry) = steps["blit_places"], steps["geometry_places"]
    off = 0
    for sample in range(32):
        if warped[sample]:
            places = blit[sample].double().numpy() @ geometry[sample].double().numpy()
            expected = slow_warp(images[sample, 0].double().numpy(), places)
            off += (np.abs(out[sample, 0].numpy() - expected) > 0.1).sum()
        else:
            copied = Augment.blit(images[sample : sample + 1], blit[sample : sample + 1], every(1))
            assert torch.equal(out[sample : sample + 1], copied)
    assert warped.any()
    assert off <= 0.001 * 32 * SIZE**2  # only pixels at the limit of the padding may differ


def test_warp_of_single_transformations() -> None:
    """The identity and shifts by whole pixels are exact inside the image."""
    augment = Augment()
    images = pictures(1, 32)
    inside = slice(8, -8)
    same = augment.warp(images, scale(numbers(1.0), numbers(1.0)))
    assert_close(same[..., inside, inside], images[..., inside, inside], rtol=0, atol=1e-5)
    shifted = augment.warp(images, translate(numbers(3.0), numbers(-2.0)))
    assert_close(shifted[..., inside, inside], images.roll((2, -3), (2, 3))[..., inside, inside])


def test_colours_against_the_matrices_of_the_paper() -> None:
    """The paper's C (ADA App. B) for (r, g, b, 1), step by step in float64."""
    draws = torch.randn(50, 5)
    matrices, brightness = colours(torch.ones(50, 5, dtype=torch.bool), draws)
    images = pictures(50, 4)
    recoloured = Augment.recolour(images, matrices, brightness, every(50))
    uniform = torch.special.ndtr(draws.double()).numpy()
    v = np.array([1, 1, 1, 0]) / math.sqrt(3)
    cross = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    for sample, d in enumerate(draws.double().numpy()):
        C = np.eye(4)
        C[:3, 3] = 0.2 * d[0]
        C = np.diag([2 ** (0.5 * d[1])] * 3 + [1]) @ C
        C = (np.eye(4) - 2 * np.outer(v, v) * (uniform[sample, 2] < 0.5)) @ C
        angle = (2 * uniform[sample, 3] - 1) * math.pi
        rotation = np.eye(4)  # by Rodrigues' formula
        rotation[:3, :3] += math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
        C = rotation @ C
        C = (np.outer(v, v) + (np.eye(4) - np.outer(v, v)) * 2 ** d[4]) @ C
        pixels = images[sample].double().numpy().reshape(3, -1)
        expected = C[:3, :3] @ pixels + C[:3, 3:]
        np.testing.assert_allclose(recoloured[sample].reshape(3, -1), expected, rtol=1e-3, atol=1e-4)


def test_gradients_of_first_and_second_order() -> None:
    """R1 differentiates through the augmentation, and its gradient does so again."""
    augment = Augment().double()
    images = pictures(2, 6).double().requires_grad_()
    index = torch.arange(2)

    def strong(x: Tensor) -> Tensor:
        out: Tensor = augment(x, 1.0, 9, index)
        return out.pow(3).sum((1, 2, 3))

    assert torch.autograd.gradcheck(strong, images, fast_mode=True)
    assert torch.autograd.gradgradcheck(strong, images, fast_mode=True)


def test_adaptation_of_the_strength() -> None:
    """p rises by (images seen) / 500,000 if D is too sure of the reals, falls otherwise, and stays within [0, 1]."""
    assert adapt(0.5, sign_mean=0.7, reals_seen=256) == pytest.approx(0.5 + 256 / 500_000)
    assert adapt(0.5, sign_mean=0.1, reals_seen=320, kimg=100) == pytest.approx(0.5 - 320 / 100_000)
    assert adapt(0.5, sign_mean=0.6, reals_seen=256, target=0.6) == 0.5
    assert adapt(0.0, -1.0, 256) == 0.0
    assert adapt(1.0, 1.0, 256) == 1.0
