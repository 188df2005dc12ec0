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
from rtm.models.layers import no_autocast

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
BLIT = 3  # transformations in each group ...
GEOMETRY = 5
COLOUR = 5
BLIT_DRAWS = 4  # ... and the numbers they draw
GEOMETRY_DRAWS = 6
COLOUR_DRAWS = 5


def adapt(
    p: float,  # the strength
    sign_mean: float,  # of sign(D(real)), r_t of ADA Sec. 3.1
    reals_seen: int,  # images behind this mean
    target: float = 0.6,  # of r_t
    kimg: float = 500,  # thousand images for the way from 0 to 1
) -> float:
    """The new strength: one step up or down."""
    direction = (sign_mean > target) - (sign_mean < target)
    moved = p + direction * reals_seen / (kimg * 1000)
    return min(max(moved, 0.0), 1.0)


def uniform(x: Tensor) -> Tensor:
    """Map standard normal numbers to uniform numbers in (0, 1)."""
    u = torch.special.ndtr(x.double()).float()
    return cast(Tensor, u.clamp(max=1 - 2**-24))


def matrix(*entries: Tensor | float, like: Tensor) -> Tensor:
    """Matrices (batch, 3, 3) from nine entries, row by row, that are numbers or tensors (batch,)."""
    columns = [entry if isinstance(entry, Tensor) else torch.full_like(like, entry) for entry in entries]
    return torch.stack(columns, dim=1).view(len(like), 3, 3)


def scale(x: Tensor, y: Tensor) -> Tensor:
    return matrix(x, 0, 0, 0, y, 0, 0, 0, 1, like=x)


def rotate(angle: Tensor) -> Tensor:
    cos = angle.cos()
    sin = angle.sin()
    return matrix(cos, -sin, 0, sin, cos, 0, 0, 0, 1, like=angle)


def translate(x: Tensor, y: Tensor) -> Tensor:
    return matrix(1, 0, x, 0, 1, y, 0, 0, 1, like=x)


def blit_places(on: Tensor, draws: Tensor, size: int) -> Tensor:
    """Mirror images, quarter turns, shifts by whole pixels up to 1/8 of the image; (batch, 3, 3)."""
    flip, turn, shift = on.unbind(1)
    side, quarters, x, y = uniform(draws).unbind(1)
    mirror = torch.where(flip & (side < 0.5), -1.0, 1.0)
    quarter = (4 * quarters).floor() * (math.pi / 2)
    angle = torch.where(turn, quarter, 0.0)
    x = (x - 0.5) * 0.25 * size
    y = (y - 0.5) * 0.25 * size
    x = torch.where(shift, x.round(), 0.0)
    y = torch.where(shift, y.round(), 0.0)
    same = torch.ones_like(mirror)
    places = scale(mirror, same) @ rotate(-angle)
    return places @ translate(-x, -y)


def geometry_places(on: Tensor, draws: Tensor, size: int) -> Tensor:
    """Scaling, rotation before and after a change of aspect, shifts by fractions of a pixel; (batch, 3, 3)."""
    zoomed, first_turn, stretched, second_turn, shifted = on.unbind(1)
    zoom, first, stretch, second, x, y = draws.unbind(1)
    zoom = torch.exp2(0.2 * zoom)
    stretch = torch.exp2(0.2 * stretch)
    s = torch.where(zoomed, zoom, 1.0)
    r = torch.where(stretched, stretch, 1.0)
    before = torch.where(first_turn, _angle(first), 0.0)
    after = torch.where(second_turn, _angle(second), 0.0)
    x = torch.where(shifted, 0.125 * size * x, 0.0)
    y = torch.where(shifted, 0.125 * size * y, 0.0)
    places = scale(1 / s, 1 / s) @ rotate(-before)
    places = places @ scale(1 / r, r)
    places = places @ rotate(-after)
    return places @ translate(-x, -y)


def _angle(draws: Tensor) -> Tensor:
    """Uniform in -pi to pi."""
    return (2 * uniform(draws) - 1) * math.pi


def colours(on: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Matrix (batch, 3, 3) and brightness (batch,), to be used as matrix @ (colour + brightness).

    Luma flip, hue and saturation share the axis v = (1, 1, 1) / sqrt 3 and therefore commute: with P the projection
    on v, Q = I - P and K the cross product with v, their product is +-P + saturation (cos Q + sin K)."""
    brighter, contrasted, flipped, turned, saturated = on.unbind(1)
    brightness, contrast, luma, hue, saturation = draws.unbind(1)
    brightness = torch.where(brighter, 0.2 * brightness, 0.0)
    contrast = torch.exp2(0.5 * contrast)
    contrast = torch.where(contrasted, contrast, 1.0)
    negative = uniform(luma) < 0.5
    grey = torch.where(flipped & negative, -1.0, 1.0)
    hue = torch.where(turned, _angle(hue), 0.0)
    saturation = torch.exp2(saturation)
    saturation = torch.where(saturated, saturation, 1.0)
    same = saturation * hue.cos()
    across = saturation * hue.sin() * math.sqrt(3)
    diagonal = grey + 2 * same  # 3 (P, Q, K) combined
    ahead = grey - same - across
    back = grey - same + across
    combined = matrix(diagonal, ahead, back, back, diagonal, ahead, ahead, back, diagonal, like=grey)
    return combined * (contrast / 3)[:, None, None], brightness


def look(
    images: Tensor,  # (batch, 3, n, n)
    places: Tensor,  # (batch, 3, 3)
    along: Tensor,  # all x, and all y
    size: int,  # of the image in pixels; `images` may have a finer grid
    mode: str,  # of interpolation
    beyond: str,  # the padding mode
) -> Tensor:
    """The images, sampled at `places` @ (x, y, 1)."""
    y, x = torch.meshgrid(along, along, indexing="ij")
    ones = torch.ones_like(x)
    points = torch.stack([x, y, ones], dim=-1)
    points = points @ places[:, None, :2].mT
    grid = points * (2 / (size - 1))  # (batch, n, n, 2), -1 and 1 at the outermost pixels
    return F.grid_sample(images, grid.to(images.dtype), mode=mode, padding_mode=beyond, align_corners=True)


class Augment(nn.Module):
    """forward(images, p, seed, index): augmented images (batch, 3, size, size), twice differentiable in the images.

    `index` is on the CPU, where the few random numbers become matrices. The padding of the images depends on these
    matrices; on a GPU, the CPU would have to wait for them."""

    wavelet: Tensor

    def __init__(self) -> None:
        super().__init__()
        taps = torch.tensor([[[SYM6]]])
        self.register_buffer("wavelet", taps / math.sqrt(2), persistent=False)  # of sum 1

    def forward(
        self,
        images: Tensor,
        p: float | Tensor,  # strength
        seed: int,
        index: Tensor,  # numbers of the samples
    ) -> Tensor:
        sizes = [BLIT, GEOMETRY, COLOUR, BLIT_DRAWS, GEOMETRY_DRAWS, COLOUR_DRAWS]
        with no_autocast(images):
            draws = normal(seed, index, sum(sizes))
            gate_1, gate_2, gate_3, blit, geometry, colour = torch.split(draws, sizes, dim=1)
            blits = uniform(gate_1) < p
            warps = uniform(gate_2) < self._geometry_chances(p)
            recolours = uniform(gate_3) < p
            size = images.shape[-1]
            places = blit_places(blits, blit, size)
            copied = self.blit(images, places, blits.any(1))
            places = places @ geometry_places(warps, geometry, size)
            warped = self.warp(images, places)
            images = _where(warps.any(1), warped, copied)
            matrices, brightness = colours(recolours, colour)
            return self.recolour(images, matrices, brightness, recolours.any(1))

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
        half = (size - 1) / 2
        along = torch.arange(size, device=images.device) - half
        places = sent(places, images.device)
        copied = look(images, places, along, size, "nearest", "reflection")
        return _where(changed, copied, images)

    def warp(self, images: Tensor, places: Tensor) -> Tensor:
        """Resampling at twice the resolution, between the wavelet filter and its mirror image (ADA App. B.2).

        First the image is padded with its reflection, as far as the places need it and a reflection can reach. The
        finer image has a sample at each pixel and one sample between neighbours. The looked-up area extends beyond the
        edges by the reach of the second filter."""
        size = images.shape[-1]
        half = (size - 1) / 2
        turns = places[:, :2, :2]
        turned = turns.abs().sum(2)
        moved = places[:, :2, 2].abs()
        reach = (half + MARGIN) * turned + moved
        beyond = math.ceil(float(reach.max()) - half)  # pixels that the places need beyond the edges
        margin = min(beyond + MARGIN + 1, size - 1)
        wide = size + 2 * margin
        taps = self.wavelet.to(images.dtype)
        padded = F.pad(images, (margin,) * 4, mode="reflect")
        fine = padded.flatten(0, 1)[:, None]
        for _ in "xy":
            fine = F.conv_transpose2d(fine, 2 * taps, stride=(1, 2), padding=(0, CENTRE))
            fine = fine[..., :-1].mT
        batch, channels = images.shape[:2]
        fine = fine.view(batch, channels, 2 * wide - 1, -1)
        samples = 2 * size + len(SYM6) - 2
        steps = torch.arange(samples, device=images.device)
        along = (steps - CENTRE) / 2 - half
        places = sent(places, images.device)
        warped = look(fine, places, along, wide, "bilinear", "zeros")
        warped = warped.flatten(0, 1)[:, None]
        for _ in "xy":
            warped = F.conv2d(warped, taps, stride=(1, 2)).mT
        return warped.view_as(images)

    @staticmethod
    def recolour(
        images: Tensor,
        matrices: Tensor,  # (batch, 3, 3)
        brightness: Tensor,  # (batch,)
        changed: Tensor,  # (batch,) which samples
    ) -> Tensor:
        brightness = sent(brightness, images.device)
        matrices = sent(matrices, images.device).to(images.dtype)
        brighter = images + brightness[:, None, None, None]
        return _where(changed, torch.einsum("bij,bjhw->bihw", matrices, brighter), images)


def _where(changed: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """The new samples where `changed`, else the old ones, with exactly the same bits."""
    mask = sent(changed, old.device)
    return torch.where(mask[:, None, None, None], new, old)
