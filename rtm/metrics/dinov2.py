"""DINOv2's ViT-L/14 (Oquab et al. 2023) as dgm-eval uses it (Stein et al. 2023): the class token after the last norm.

Shapes: b images, t = 1 + 16 x 16 tokens, d = 1024 numbers a token. The tensors have the names of the official file.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

from rtm.data.weights import load_network
from rtm.metrics.features import Extractor, Features, identity
from rtm.metrics.resize import imagenet_normalised, resized_by_pillow

PATCH = 14  # pixels of a patch's side
HEAD = 64  # numbers of a head
EPS = 1e-6  # of the layer norms


class TransformerLayer(nn.Module):
    """Attention and a perceptron, each after a norm and scaled in every dimension (LayerScale)."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(d, EPS)
        self.norm2 = nn.LayerNorm(d, EPS)
        hidden = 4 * d
        self.attn = nn.ModuleDict({"qkv": nn.Linear(d, 3 * d), "proj": nn.Linear(d, d)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(d, hidden), "fc2": nn.Linear(hidden, d)})
        self.ls1 = nn.ParameterDict({"gamma": nn.Parameter(torch.ones(d))})
        self.ls2 = nn.ParameterDict({"gamma": nn.Parameter(torch.ones(d))})

    def forward(self, x_btd: Tensor) -> Tensor:
        qkv = self.attn["qkv"](self.norm1(x_btd))
        heads = qkv.unflatten(2, (3, -1, HEAD))
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)
        mixed = self.attn["proj"](mixed.transpose(1, 2).flatten(2))
        x_btd = x_btd + self.ls1["gamma"] * mixed
        hidden = self.mlp["fc1"](self.norm2(x_btd))
        hidden = self.mlp["fc2"](F.gelu(hidden))
        return torch.add(x_btd, self.ls2["gamma"] * hidden)


class VisionTransformer(nn.Module):
    """Normalised images (b, 3, side, side) to class tokens (b, d). All sizes are read from the given tensors."""

    def __init__(self, tensors: Mapping[str, Tensor], side: int) -> None:
        super().__init__()
        d = tensors["cls_token"].shape[-1]
        blocks = {name.split(".")[1] for name in tensors if name.startswith("blocks.")}
        grid = side // PATCH
        with torch.device("meta"):
            self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, d, PATCH, PATCH)})
            self.cls_token = nn.Parameter(torch.empty(1, 1, d))
            self.pos_embed = nn.Parameter(torch.empty(1, 1 + grid**2, d))
            self.blocks = nn.Sequential(*[TransformerLayer(d) for _ in blocks])
            self.norm = nn.LayerNorm(d, EPS)
        pos_embed = positions(tensors["pos_embed"], grid)
        self.load_state_dict({**tensors, "pos_embed": pos_embed}, assign=True)
        self.eval().requires_grad_(False)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch_embed["proj"](images).flatten(2).transpose(1, 2)
        class_tokens = self.cls_token.expand(len(images), -1, -1)
        x_btd = torch.cat([class_tokens, patches], dim=1) + self.pos_embed
        tokens: Tensor = self.blocks(x_btd)
        return cast(Tensor, self.norm(tokens[:, 0]))


def positions(embedding: Tensor, grid: int) -> Tensor:
    """Position embeddings (1, 1 + n x n, d) for a grid of another size, resized as in the official network.

    The official code adds 0.1 to the wanted size, so that rounding loses no row. So samples are n / (grid + 0.1) apart.
    """
    of_class = embedding[:, :1]
    of_patches = embedding[:, 1:]
    n = round(of_patches.shape[1] ** 0.5)
    if n == grid:
        return embedding
    square = of_patches.unflatten(1, (n, n)).permute(0, 3, 1, 2)
    resized = F.interpolate(square, scale_factor=(grid + 0.1) / n, mode="bicubic")
    of_patches = resized.flatten(2).transpose(1, 2)
    return torch.cat([of_class, of_patches], dim=1)


class DINOv2Extractor(Extractor):
    """1024-d class tokens. Images are resized by Pillow's bicubic filter in 8 bits, as in dgm-eval."""

    SIDE = 224
    title = "DINOv2 ViT-L/14"

    def __init__(self, weights: Path, resize: str = "pillow") -> None:
        super().__init__()
        self.network = VisionTransformer(load_network(weights), self.SIDE)
        self.digest = identity(weights, "pil_bicubic_8bit")

    def forward(self, images: Tensor) -> Features:
        pixels = resized_by_pillow(images, self.SIDE, Image.Resampling.BICUBIC)
        return Features(self.network(imagenet_normalised(pixels)), None)
