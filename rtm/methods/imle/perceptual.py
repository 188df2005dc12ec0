"""The perceptual space of RS-IMLE: the loss of Eq. 1 and the features in which latents are matched.

A network gives feature maps whose channels have unit length at each position; LPIPS is the spatial mean of their
squared differences, and the matching features are the same maps, flattened, projected and scaled to length 1.
"""

import math
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.config.classes import built
from rtm.config.experiments import Own
from rtm.core.randomness import normal, seed_of
from rtm.data.weights import load_network
from rtm.models.digits import load_digits_classifier

LARGEST = 4 * 2**30  # most bytes of maps that are kept; LPIPS has 0.5 MB for an image of 32 px, 32 MB at 256 px


class LPIPS(nn.Module):
    """VGG16's five maps with the weights of LPIPS v0.1, whose square roots scale the channels."""

    shift: Tensor
    scale: Tensor
    ENDS = (3, 8, 15, 22, 29)  # relu1_2, 2_2, 3_3, 4_3, 5_3

    def __init__(self, features: nn.Sequential, heads: Sequence[Tensor]) -> None:
        super().__init__()
        needed = self.ENDS[-1] + 1
        self.layers = nn.ModuleList(list(features)[:needed])
        roots = [head.sqrt() for head in heads]
        self.heads = nn.ParameterList(nn.Parameter(root, requires_grad=False) for root in roots)
        shift = torch.tensor([-0.030, -0.088, -0.188])
        scale = torch.tensor([0.458, 0.448, 0.450])
        self.register_buffer("shift", shift[:, None, None])
        self.register_buffer("scale", scale[:, None, None])

    def forward(self, images: Tensor) -> list[Tensor]:
        x = (images - self.shift) / self.scale
        maps: list[Tensor] = []
        for position, layer in enumerate(self.layers):
            x = layer(x)
            if position in self.ENDS:
                head = self.heads[len(maps)]
                maps.append(_unit(x) * head)
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
        own: nn.Module = built(space.kind, {}, space.options())
        return own.eval().requires_grad_(False)
    assert weights is not None
    network = DigitMaps(weights) if space == "digit_classifier" else _lpips(weights)
    return network.eval().requires_grad_(False)


def _lpips(weights: Path) -> LPIPS:
    import lpips

    from rtm.models.vgg16 import load_vgg16

    features = load_vgg16(load_network(weights)).features
    for layer in features:
        if isinstance(layer, nn.ReLU):
            layer.inplace = False  # because the maps before the layer are kept
    path = files(lpips) / "weights/v0.1/vgg.pth"
    tensors = torch.load(str(path), map_location="cpu", weights_only=True)
    heads = [tensors[f"lin{layer}.model.1.weight"] for layer in range(5)]
    return LPIPS(features, heads)


def _unit(maps: Tensor) -> Tensor:
    length = maps.square().sum(1, keepdim=True).sqrt()
    return maps / (length + 1e-10)


def distance(a: Sequence[Tensor], b: Sequence[Tensor]) -> Tensor:
    """LPIPS of each pair, from their maps: (batch,)."""
    layers = []
    for x, y in zip(a, b, strict=True):
        squared = (x - y).square().sum(1)
        layers.append(squared.mean((1, 2)))
    return torch.stack(layers).sum(0)


def maps_of_all(parts: Iterable[Sequence[Tensor]], n: int) -> list[Tensor] | None:
    """The maps of n images, given in parts; None if they would take more memory than LARGEST."""
    result: list[Tensor] = []
    first = 0
    for part in parts:
        if not result:
            of_one = sum(maps[0].nbytes for maps in part)
            if n * of_one > LARGEST:
                return None
            result = [maps.new_empty(n, *maps.shape[1:]) for maps in part]
        last = first + len(part[0])
        for whole, maps in zip(result, part, strict=True):
            whole[first:last] = maps
        first = last
    return result


class Embedding(nn.Module):
    """phi: the feature space of matching and rejection, on the unit sphere (Eq. 1)."""

    def __init__(
        self,
        maps: nn.Module,  # of the perceptual space
        resolution: int,  # of the images
        dims: int | None,  # d_phi; None: no projection
        seed: int,  # of the projections
        device: torch.device,
    ) -> None:
        super().__init__()
        self.maps = maps
        self.projections = None
        if dims is not None:
            blank = torch.zeros(1, 3, resolution, resolution, device=device)
            with torch.no_grad():
                sizes = [m[0].numel() for m in maps(blank)]
            self.projections = _projections(sizes, dims, seed, device)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        features = []
        for layer, maps in enumerate(self.maps(images)):
            flat = maps.flatten(1)
            if self.projections is None:
                places = maps.shape[2] * maps.shape[3]
                features.append(flat / math.sqrt(places))
            else:
                projection = self.projections[layer]
                features.append((flat.to(projection.dtype) @ projection).float())
        return F.normalize(torch.cat(features, 1))


def _projections(
    sizes: Sequence[int],  # numbers of each layer
    dims: int,  # of all layers together
    seed: int,
    device: torch.device,
) -> list[Tensor]:
    """Gaussian projections of unit length, with output dimensions in proportion to the layers' sizes."""
    total = sum(sizes)
    shares = [max(1, dims * size // total) for size in sizes]
    shares[0] += dims - sum(shares)
    dtype = torch.float16 if device.type == "cuda" else torch.float32  # 4.3 GB instead of 8.7 at 256 px
    projections = []
    for layer, (size, share) in enumerate(zip(sizes, shares, strict=True)):
        rows = torch.empty(share, size, dtype=dtype, device=device)
        for index in torch.arange(share, device=device).split(16):
            directions = normal(seed_of(seed, "projection", layer), index, size)
            rows[index] = F.normalize(directions).to(dtype)
        projections.append(rows.T)
    return projections
