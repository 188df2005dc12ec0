"""The `bgc` augmentations of StyleGAN2-ADA (pixel blitting, geometry, colour) and the adaptation of their strength.

Karras et al., "Training Generative Adversarial Networks with Limited Data", 2020, App. B ("ADA" below).
Every transformation happens to a sample with probability p. Its random numbers depend only on the seed and the sample's
index, so they are the same for any number of processes. Matrices map places in the output to places in the input,
(x, y, 1) in pixels from the centre of the image: inverses of the paper's steps, multiplied in the paper's order. As in
the paper, one matrix combines all steps, so areas that a shift uncovers are not mirrored a second time.
"""

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.core.devices import sent
from rtm.core.randomness import normal
from rtm.models.layers import full_precision

# The wavelet filter of least asymmetry with six vanishing moments (Daubechies, 1992): orthogonal to its even shifts.
SYM6 = (
    0.015404109327027373,
    0.0034907120842174702,
    -0.11799011114819057,
    -0.048311742585633,
    0.4910559419267466,
    0.787641141030194,
    0.3379294217276218,
    -0.07263752278646252,
    -0.021060292512300564,
    0.04472490177066578,
    0.0017677118642428036,
    -0.007800708325034148,
)
CENTRE = 5  # the tap nearest to the centroid of SYM6 (5.1); the filter is centred at this tap
MARGIN = len(SYM6) // 4  # pixels on each side that the filter reaches
BLIT, GEOMETRY, COLOUR = 3, 5, 5  # transformations in each group ...
BLIT_DRAWS, GEOMETRY_DRAWS, COLOUR_DRAWS = 4, 6, 5  # ... and the numbers they draw


def adapt(p: float, sign_mean: float, reals_seen: int, target: float = 0.6, kimg: float = 500) -> float:
    """The new strength p after `reals_seen` images whose mean sign(D(real)) was `sign_mean` (r_t of ADA Sec. 3.1).

    p makes one step up or down; at this speed it needs `kimg` thousand images to go from 0 to 1."""
    direction = (sign_mean > target) - (sign_mean < target)
    return min(max(p + direction * reals_seen / (kimg * 1000), 0.0), 1.0)


def uniform(x: Tensor) -> Tensor:
    """Map standard normal numbers to uniform numbers in (0, 1)."""
    return cast(Tensor, torch.special.ndtr(x.double()).float().clamp(max=1 - 2**-24))


def matrix(rows: list[list[Tensor | float]], like: Tensor) -> Tensor:
    """Matrices (batch, n, n) from entries that are numbers or tensors (batch,)."""
    entries = [e if isinstance(e, Tensor) else torch.full_like(like, e) for row in rows for e in row]
    return torch.stack(entries, dim=1).view(len(like), len(rows), -1)


def scale(x: Tensor, y: Tensor) -> Tensor:
    return matrix([[x, 0, 0], [0, y, 0], [0, 0, 1]], like=x)


def rotate(angle: Tensor) -> Tensor:
    cos, sin = angle.cos(), angle.sin()
    return matrix([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]], like=angle)


def translate(x: Tensor, y: Tensor) -> Tensor:
    return matrix([[1, 0, x], [0, 1, y], [0, 0, 1]], like=x)


def blit_places(on: Tensor, draws: Tensor, size: int) -> Tensor:
    """Mirror images, quarter turns, shifts by whole pixels up to 1/8 of the image; (batch, 3, 3)."""
    flip, turn, shift = on.unbind(1)
    side, quarters, *offsets = uniform(draws).unbind(1)
    mirror = torch.where(flip & (side < 0.5), -1.0, 1.0)
    angle = torch.where(turn, (4 * quarters).floor() * (math.pi / 2), 0.0)
    x, y = (torch.where(shift, ((offset - 0.5) * 0.25 * size).round(), 0.0) for offset in offsets)
    return scale(mirror, torch.ones_like(mirror)) @ rotate(-angle) @ translate(-x, -y)


def geometry_places(on: Tensor, draws: Tensor, size: int) -> Tensor:
    """Scaling, rotation before and after a change of aspect, shifts by fractions of a pixel; (batch, 3, 3)."""
    zoomed, first_turn, stretched, second_turn, shifted = on.unbind(1)
    zoom, first, stretch, second, *offsets = draws.unbind(1)
    s = torch.where(zoomed, torch.exp2(0.2 * zoom), 1.0)
    r = torch.where(stretched, torch.exp2(0.2 * stretch), 1.0)
    before = torch.where(first_turn, (2 * uniform(first) - 1) * math.pi, 0.0)
    after = torch.where(second_turn, (2 * uniform(second) - 1) * math.pi, 0.0)
    x, y = (torch.where(shifted, 0.125 * size * offset, 0.0) for offset in offsets)
    return scale(1 / s, 1 / s) @ rotate(-before) @ scale(1 / r, r) @ rotate(-after) @ translate(-x, -y)


def colours(on: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix (batch, 3, 3) and brightness (batch,), to be used as matrix @ (colour + brightness).

    Luma flip, hue and saturation share the axis v = (1, 1, 1) / sqrt 3 and therefore commute: with P the projection
    on v, Q = I - P and K the cross product with v, their product is +-P + saturation (cos Q + sin K)."""
    brighter, contrasted, flipped, turned, saturated = on.unbind(1)
    brightness, contrast, luma, hue, saturation = draws.unbind(1)
    brightness = torch.where(brighter, 0.2 * brightness, 0.0)
    contrast = torch.where(contrasted, torch.exp2(0.5 * contrast), 1.0)
    luma = torch.where(flipped & (uniform(luma) < 0.5), -1.0, 1.0)
    hue = torch.where(turned, (2 * uniform(hue) - 1) * math.pi, 0.0)
    saturation = torch.where(saturated, torch.exp2(saturation), 1.0)
    grey, same, across = luma, saturation * hue.cos(), saturation * hue.sin() * math.sqrt(3)
    diagonal, ahead, back = grey + 2 * same, grey - same - across, grey - same + across  # 3 (P, Q, K) combined
    rows: list[list[Tensor | float]] = [[diagonal, ahead, back], [back, diagonal, ahead], [ahead, back, diagonal]]
    return matrix(rows, like=luma) * (contrast / 3)[:, None, None], brightness


def look(images: Tensor, places: Tensor, along: Tensor, size: int, mode: str, beyond: str) -> Tensor:
    """The images, sampled at `places` @ (x, y, 1) for all x, y of `along`. `size` is the size of the image in pixels;
    `images` may have a finer grid. `beyond` is the padding mode."""
    y, x = torch.meshgrid(along, along, indexing="ij")
    points = torch.stack([x, y, torch.ones_like(x)], dim=-1) @ places[:, None, :2].mT
    grid = (points * (2 / (size - 1))).to(images.dtype)  # (batch, n, n, 2), -1 and 1 at the outermost pixels
    return F.grid_sample(images, grid, mode=mode, padding_mode=beyond, align_corners=True)


class Augment(nn.Module):
    """forward(images, p, seed, index): augmented images (batch, 3, size, size), twice differentiable in the images.

    `index` is on the CPU, where the few random numbers become matrices. The padding of the images depends on these
    matrices; on a GPU, the CPU would have to wait for them."""

    wavelet: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("wavelet", torch.tensor([[[SYM6]]]) / math.sqrt(2), persistent=False)  # of sum 1

    def forward(self, images: Tensor, p: float | Tensor, seed: int, index: Tensor) -> Tensor:
        sizes = [BLIT, GEOMETRY, COLOUR, BLIT_DRAWS, GEOMETRY_DRAWS, COLOUR_DRAWS]
        with full_precision(images):
            *gates, blit, geometry, colour = torch.split(normal(seed, index, sum(sizes)), sizes, dim=1)
            chances = p, self._geometry_chances(p), p
            on = [uniform(gate) < chance for gate, chance in zip(gates, chances, strict=True)]
            size = images.shape[-1]
            places = blit_places(on[0], blit, size)
            copied = self.blit(images, places, on[0].any(1))
            places = places @ geometry_places(on[1], geometry, size)
            images = _where(sent(on[1].any(1), images.device), self.warp(images, places), copied)
            return self.recolour(images, *colours(on[2], colour), on[2].any(1))

    @staticmethod
    def _geometry_chances(p: float | Tensor) -> Tensor:
        """The probabilities: p, but smaller for the two rotations, so that with probability p at least one happens."""
        p = torch.as_tensor(p, dtype=torch.float32)
        turn = 1 - (1 - p).sqrt()
        return torch.stack([p, turn, p, turn, p])

    @staticmethod
    def blit(images: Tensor, places: Tensor, changed: Tensor) -> Tensor:
        """Pixels copied as they are."""
        size = images.shape[-1]
        along = torch.arange(size, device=images.device) - (size - 1) / 2
        copied = look(images, sent(places, images.device), along, size, "nearest", "reflection")
        return _where(sent(changed, images.device), copied, images)

    def warp(self, images: Tensor, places: Tensor) -> Tensor:
        """Resampling at twice the resolution, between the wavelet filter and its mirror image (ADA App. B.2).

        First the image is padded with its reflection, as far as the places need it and a reflection can reach. The
        finer image has a sample at each pixel and one sample between neighbours. The looked-up area extends beyond the
        edges by the reach of the second filter."""
        size, half = images.shape[-1], (images.shape[-1] - 1) / 2
        reach = (half + MARGIN) * places[:, :2, :2].abs().sum(2) + places[:, :2, 2].abs()
        margin = min(math.ceil(float(reach.max()) - half) + MARGIN + 1, size - 1)
        wide, taps = size + 2 * margin, self.wavelet.to(images.dtype)
        fine = F.pad(images, (margin,) * 4, mode="reflect").flatten(0, 1)[:, None]
        for _ in "xy":
            fine = F.conv_transpose2d(fine, 2 * taps, stride=(1, 2), padding=(0, CENTRE))[..., :-1].mT
        along = (torch.arange(2 * size + len(SYM6) - 2, device=images.device) - CENTRE) / 2 - half
        places, fine = sent(places, images.device), fine.view(*images.shape[:2], 2 * wide - 1, -1)
        seen = look(fine, places, along, wide, "bilinear", "zeros")
        seen = seen.flatten(0, 1)[:, None]
        for _ in "xy":
            seen = F.conv2d(seen, taps, stride=(1, 2)).mT
        return seen.view_as(images)

    @staticmethod
    def recolour(images: Tensor, matrices: Tensor, brightness: Tensor, changed: Tensor) -> Tensor:
        matrices, brightness, changed = (sent(each, images.device) for each in (matrices, brightness, changed))
        brighter = images + brightness[:, None, None, None]
        return _where(changed, torch.einsum("bij,bjhw->bihw", matrices.to(images.dtype), brighter), images)


def _where(changed: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """The new samples where `changed`, else the old ones, with exactly the same bits."""
    return torch.where(changed[:, None, None, None], new, old)
