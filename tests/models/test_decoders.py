"""The decoders: the paper's table in Fig. 4, each block against an obvious version, noise, and layouts."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from rtm.models.decoders import AdaIN, ConvNeXtBranch, Decoder, ResidualBranch

CIFAR: dict[str, Any] = {"block": "convnext", "width": 768, "blocks": {1: 1, 4: 3, 8: 6, 16: 6, 32: 6}}
CELEBA: dict[str, Any] = {
    "block": "convnext",
    "width": 768,
    "widths": {64: 512, 128: 256, 256: 128},
    "blocks": {1: 1, 4: 3, 8: 5, 16: 6, 32: 6, 64: 6, 128: 5, 256: 2},
}
FEW_SHOT: dict[str, Any] = {
    "block": "residual",
    "width": 384,
    "blocks": {1: 4, 4: 5, 8: 5, 16: 4, 32: 3, 64: 3, 128: 3, 256: 1},
}
BLOCKS: tuple[Any, ...] = ("residual", "convnext")
TINY: dict[int, int] = {1: 1, 4: 2, 8: 2}


def white(decoder: Decoder, w: Tensor, seed: int = 0) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(len(w), 1, r, r, generator=generator, dtype=w.dtype) for r in decoder.noise_resolutions]


@pytest.mark.parametrize(
    ("settings", "dim", "blocks", "stages", "resolution", "millions"),
    [(CIFAR, 512, 22, 5, 32, 122), (CELEBA, 512, 34, 8, 256, 138), (FEW_SHOT, 1024, 28, 8, 256, 28)],
    ids=["cifar10", "celebahq", "few-shot"],
)
def test_paper_table(
    settings: Any,
    dim: int,
    blocks: int,
    stages: int,
    resolution: int,
    millions: int,
) -> None:
    with torch.device("meta"):
        decoder = Decoder(dim, **settings)
        images = decoder(torch.empty(2, dim), [torch.empty(2, 1, r, r) for r in decoder.noise_resolutions])
    assert len(decoder.layers) == blocks
    assert len(set(decoder.resolutions)) == stages
    assert decoder.resolutions[-1] == resolution
    assert images.shape == (2, 3, resolution, resolution)
    assert round(sum(p.numel() for p in decoder.parameters()) / 1e6) == millions


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("blocks", [TINY, {4: 1, 8: 1, 16: 1}, {1: 1, 4: 1, 8: 1, 16: 1, 32: 1}, {8: 1}])
def test_small_decoders(block: Any, blocks: dict[int, int]) -> None:
    decoder = Decoder(16, block, blocks, 32, widths={max(blocks): 16}, noise_std=1.0)
    w = torch.randn(3, 16)
    images = decoder(w, white(decoder, w))
    assert images.shape == (3, 3, max(blocks), max(blocks))
    assert 0.1 < images.std() < 3
    images.square().mean().backward()
    assert all(p.grad is not None for p in decoder.parameters())
    last: Any = decoder.layers[-1]
    assert last.adain.affine.weight.grad.any()


def test_adain_is_instance_norm_with_the_style_as_affine() -> None:
    adain = AdaIN(5, 4, eps=1e-2)
    x = torch.randn(3, 4, 6, 6) * 2 + 3
    w = torch.randn(3, 5)
    style = w @ adain.affine.weight.T + adain.affine.bias
    scale = style[:, :4, None, None]
    shift = style[:, 4:, None, None]
    assert_close(adain(x, w), F.instance_norm(x, eps=1e-2) * scale + shift)
    assert_close(adain(x[..., :1, :1], w), x[..., :1, :1] * scale + shift)
    assert torch.equal(adain.affine.bias, torch.tensor([1.0] * 4 + [0.0] * 4))


@pytest.mark.parametrize(("resolution", "kernel"), [(1, 1), (2, 1), (4, 3)])
def test_residual_branch(resolution: int, kernel: int) -> None:
    branch = ResidualBranch(8, resolution, 0.25).double()
    convolutions = [m for m in branch.modules() if isinstance(m, nn.Conv2d)]
    assert [c.kernel_size[0] for c in convolutions] == [1, kernel, kernel, 1]
    assert [c.out_channels for c in convolutions] == [2, 2, 2, 8]
    x = h = torch.randn(3, 8, resolution, resolution).double()
    for c in convolutions:
        h = F.conv2d(
            0.5 * h * (1 + torch.erf(h / math.sqrt(2))),
            c.weight,
            c.bias,
            padding=c.kernel_size[0] // 2,
        )
    assert_close(branch(x), h)


def test_convnext_branch_equals_convolutions() -> None:
    branch = ConvNeXtBranch(8, 4).double()
    layers: Any = branch.layers
    norm, wide, _, back = layers
    x = torch.randn(3, 8, 5, 5).double()
    h = F.conv2d(x, branch.depthwise.weight, branch.depthwise.bias, padding=3, groups=8)
    h = (h - h.mean(1, keepdim=True)) / torch.sqrt(h.var(1, correction=0, keepdim=True) + 1e-6)
    h = F.conv2d(h, wide.weight[:, :, None, None], wide.bias)
    h = F.conv2d(0.5 * h * (1 + torch.erf(h / math.sqrt(2))), back.weight[:, :, None, None], back.bias)
    assert torch.equal(norm.weight, torch.ones_like(norm.weight))
    assert_close(branch(x), h)


def test_upsampling_is_nearest_and_comes_before_the_style() -> None:
    decoder = Decoder(5, "residual", {2: 1, 4: 1}, 8, widths={4: 6}).double()
    layers: Any = decoder.layers
    first, second = layers
    x = torch.randn(3, 8, 2, 2).double()
    w = torch.randn(3, 5).double()
    h = second.resize(x).repeat_interleave(2, 2).repeat_interleave(2, 3)
    h = second.adain(h, w)
    assert_close(second(x, w, None), h + second.branch(h))
    trunk = first.adain(x, w)
    assert_close(first(x, w, None), trunk + first.branch(trunk))


def test_noise_acts_by_its_weights_where_it_is_on() -> None:
    w = torch.randn(3, 16)
    silent = Decoder(16, "residual", TINY, 32)
    assert torch.equal(silent(w, white(silent, w)), silent(w))  # the weights start at zero
    loud = Decoder(16, "residual", TINY, 32, noise_std=1.0, noise_max_resolution=4)
    assert loud.noise_resolutions == [1, 4]
    noise = [torch.ones(3, 1, r, r).tril() for r in loud.noise_resolutions]
    assert not torch.allclose(loud(w, noise), loud(w))
    off = Decoder(16, "residual", TINY, 32, noise=False)
    assert not off.noise_resolutions
    assert not [name for name, _ in off.named_parameters() if name.endswith(".noise")]


def test_an_image_does_not_depend_on_its_batch_nor_on_the_memory_format() -> None:
    for block in BLOCKS:
        decoder = Decoder(16, block, TINY, 32).double()
        w = torch.randn(6, 16).double()
        images = decoder(w)
        assert_close(decoder(w[2:3]), images[2:3])
        channels_last: Any = {"memory_format": torch.channels_last}
        assert_close(decoder.to(**channels_last)(w), images)


def test_bfloat16_autocast_stays_near_float32() -> None:
    for block in BLOCKS:
        decoder = Decoder(16, block, TINY, 32)
        w = torch.randn(6, 16)
        with torch.autocast("cpu", torch.bfloat16):
            images = decoder(w)
        assert (images - decoder(w)).norm() / decoder(w).norm() < 0.05


def test_last_layers_start_small_and_biases_at_zero() -> None:
    for block in BLOCKS:
        decoder = Decoder(16, block, {4: 25}, 64)
        branch: Any = decoder.layers[3].branch
        linear = [m for m in branch.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        fan_in = linear[-1].weight[0].numel()
        bound = 1 / math.sqrt(fan_in) / 5  # PyTorch's uniform bound times sqrt(1 / 25 blocks)
        assert 0.9 * bound < linear[-1].weight.abs().max() <= bound * (1 + 1e-6)
        assert not any(m.bias.any() for m in linear if m.bias is not None)
