"""The perceptual space of RS-IMLE: the loss of Eq. 1 and the features in which latents are matched.

A network gives feature maps whose channels have unit length at each position; LPIPS is the spatial mean of their
squared differences, and the matching features are the same maps, flattened, projected and scaled to length 1.
"""

import math
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.config.classes import built
from rtm.config.experiments import Own
from rtm.core.randomness import normal, seed_of
from rtm.models.digits import load_digits_classifier

KEPT = 4 * 2**30  # most bytes of maps that are kept; LPIPS has 0.5 MB for an image of 32 px, 32 MB at 256 px


class LPIPS(nn.Module):
    """VGG16's five maps with the weights of LPIPS v0.1, whose square roots scale the channels."""

    shift: Tensor
    scale: Tensor
    ENDS = (3, 8, 15, 22, 29)  # relu1_2, 2_2, 3_3, 4_3, 5_3

    def __init__(self, features: nn.Sequential, heads: Sequence[Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(list(features)[: self.ENDS[-1] + 1])
        self.heads = nn.ParameterList(nn.Parameter(head.sqrt(), requires_grad=False) for head in heads)
        self.register_buffer("shift", torch.tensor([-0.030, -0.088, -0.188])[:, None, None])
        self.register_buffer("scale", torch.tensor([0.458, 0.448, 0.450])[:, None, None])

    def forward(self, images: Tensor) -> list[Tensor]:
        x, maps = (images - self.shift) / self.scale, list[Tensor]()
        for position, layer in enumerate(self.layers):
            x = layer(x)
            if position in self.ENDS:
                maps.append(_unit(x) * self.heads[len(maps)])
        return maps


class DigitMaps(nn.Module):
    """The digit classifier's maps, unweighted: the stand-in for LPIPS on digits."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.classifier = load_digits_classifier(weights)

    def forward(self, images: Tensor) -> list[Tensor]:
        return [_unit(features) for features in self.classifier.maps(images)]


def load_maps(space: str | Own, weights: Path | None) -> nn.Module:
    """The frozen network of a recipe's `perceptual`: one of rtm's networks with its weights file, or a user's class,
    which turns images (batch, 3, R, R) in [-1, 1] into maps (batch, channels, h, w)."""
    if not isinstance(space, str):
        return cast(nn.Module, built(space.kind, {}, space.options())).eval().requires_grad_(False)
    assert weights is not None
    network = DigitMaps(weights) if space == "digit_classifier" else _lpips(weights)
    return network.eval().requires_grad_(False)


def _lpips(weights: Path) -> LPIPS:
    import lpips

    from rtm.models.vgg16 import load_vgg16

    features = load_vgg16(weights).features
    for layer in features:
        if isinstance(layer, nn.ReLU):
            layer.inplace = False  # because the maps before the layer are kept
    heads = torch.load(str(files(lpips) / "weights/v0.1/vgg.pth"), map_location="cpu", weights_only=True)
    return LPIPS(features, [heads[f"lin{layer}.model.1.weight"] for layer in range(5)])


def _unit(maps: Tensor) -> Tensor:
    return maps / (maps.square().sum(1, keepdim=True).sqrt() + 1e-10)


def distance(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    """LPIPS of each pair, from their maps: (batch,)."""
    layers = [(x - y).square().sum(1).mean((1, 2)) for x, y in zip(a, b, strict=True)]
    return torch.stack(layers).sum(0)


def maps_of_all(parts: Iterable[Sequence[Tensor]], n: int) -> list[Tensor] | None:
    """The maps of n images, given in parts; None if they would take more memory than KEPT."""
    kept, filled = list[Tensor](), 0
    for part in parts:
        if not kept and sum(each[0].nbytes for each in part) * n > KEPT:
            return None
        kept = kept or [each.new_empty(n, *each.shape[1:]) for each in part]
        for whole, each in zip(kept, part, strict=True):
            whole[filled : filled + len(each)] = each
        filled += len(part[0])
    return kept


class Embedding(nn.Module):
    """phi: the feature space of matching and rejection, on the unit sphere (Eq. 1)."""

    def __init__(self, maps: nn.Module, resolution: int, dims: int | None, seed: int, device: torch.device) -> None:
        super().__init__()
        self.maps = maps
        with torch.no_grad():
            sizes = [m[0].numel() for m in maps(torch.zeros(1, 3, resolution, resolution, device=device))]
        self.projections = None if dims is None else _projections(sizes, dims, seed, device)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        maps = self.maps(images)
        if self.projections is None:
            flat = [m.flatten(1) / math.sqrt(m.shape[2] * m.shape[3]) for m in maps]
        else:
            flat = [(m.flatten(1).to(p.dtype) @ p).float() for m, p in zip(maps, self.projections, strict=True)]
        return F.normalize(torch.cat(flat, 1))


def _projections(sizes: Sequence[int], dims: int, seed: int, device: torch.device) -> list[Tensor]:
    """Gaussian projections of unit length, with output dimensions in proportion to the layers' sizes."""
    shares = [max(1, dims * size // sum(sizes)) for size in sizes]
    shares[0] += dims - sum(shares)
    kept = torch.float16 if device.type == "cuda" else torch.float32  # 4.3 GB instead of 8.7 at 256 px
    drawn = [torch.empty(share, size, dtype=kept, device=device) for size, share in zip(sizes, shares, strict=True)]
    for layer, rows in enumerate(drawn):
        for first in range(0, len(rows), 16):
            part = torch.arange(first, min(first + 16, len(rows)), device=device)
            rows[first : first + 16] = F.normalize(normal(seed_of(seed, "projection", layer), part, rows.shape[1]))
    return [rows.T for rows in drawn]
