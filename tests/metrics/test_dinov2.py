"""DINOv2 equals PyTorch's transformer layers, its positions a slow transcription, and its input torchvision's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.testing import assert_close
from torchvision import transforms

from rtm.config import load
from rtm.config.experiments import Protocol
from rtm.data import networks
from rtm.metrics.dinov2 import HEAD, PATCH, DINOv2Extractor, VisionTransformer, positions

WIDTH = 2 * HEAD
DEPTH = 3
GRID = 4


def tensors(grid: int = GRID) -> dict[str, Tensor]:
    """A small network with the official names."""
    torch.manual_seed(0)
    d = WIDTH
    sizes: dict[str, tuple[int, ...]] = {"patch_embed.proj": (d, 3, PATCH, PATCH)}
    norms = ["norm"]
    for block in range(DEPTH):
        shapes = {"attn.qkv": (3 * d, d), "attn.proj": (d, d), "mlp.fc1": (4 * d, d), "mlp.fc2": (d, 4 * d)}
        sizes |= {f"blocks.{block}.{name}": shape for name, shape in shapes.items()}
        norms += [f"blocks.{block}.norm1", f"blocks.{block}.norm2"]
    made = {f"{name}.weight": torch.randn(shape) * shape[1] ** -0.5 for name, shape in sizes.items()}
    made |= {f"{name}.bias": torch.randn(shape[0]) * 0.1 for name, shape in sizes.items()}
    made |= {f"{name}.weight": 1 + 0.1 * torch.randn(d) for name in norms}
    made |= {f"{name}.bias": 0.1 * torch.randn(d) for name in norms}
    made |= {f"blocks.{block}.ls{n}.gamma": torch.rand(d) for block in range(DEPTH) for n in (1, 2)}
    return made | {"cls_token": torch.randn(1, 1, d), "pos_embed": torch.randn(1, 1 + grid * grid, d)}


def reference(state: dict[str, Tensor], images: Tensor) -> Tensor:
    """The features from PyTorch's own layers. LayerScale is multiplied into the matrix before it."""
    layers = []
    for block in range(DEPTH):
        own = {name.removeprefix(f"blocks.{block}."): x for name, x in state.items() if f"blocks.{block}." in name}
        layer = nn.TransformerEncoderLayer(
            WIDTH, WIDTH // HEAD, 4 * WIDTH, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True
        )
        one = own["ls1.gamma"]
        two = own["ls2.gamma"]
        layer.load_state_dict(
            {
                "self_attn.in_proj_weight": own["attn.qkv.weight"],
                "self_attn.in_proj_bias": own["attn.qkv.bias"],
                "self_attn.out_proj.weight": one[:, None] * own["attn.proj.weight"],
                "self_attn.out_proj.bias": one * own["attn.proj.bias"],
                "linear1.weight": own["mlp.fc1.weight"],
                "linear1.bias": own["mlp.fc1.bias"],
                "linear2.weight": two[:, None] * own["mlp.fc2.weight"],
                "linear2.bias": two * own["mlp.fc2.bias"],
                **{f"norm{n}.{kind}": own[f"norm{n}.{kind}"] for n in (1, 2) for kind in ("weight", "bias")},
            }
        )
        layers.append(layer.train())  # train() avoids PyTorch's fast path; there is no dropout
    patches = (
        images.unfold(2, PATCH, PATCH)
        .unfold(3, PATCH, PATCH)
        .permute(
            0,
            2,
            3,
            1,
            4,
            5,
        )
        .flatten(3)
        .flatten(1, 2)
    )
    x = patches @ state["patch_embed.proj.weight"].flatten(1).T + state["patch_embed.proj.bias"]
    x = torch.cat([state["cls_token"].expand(len(images), -1, -1), x], 1) + state["pos_embed"]
    x = nn.Sequential(*layers)(x)
    return nn.functional.layer_norm(
        x[:, 0],
        (WIDTH,),
        state["norm.weight"],
        state["norm.bias"],
        1e-6,
    )


def test_the_network_equals_pytorchs_transformer() -> None:
    state = tensors()
    images = torch.randn(3, 3, GRID * PATCH, GRID * PATCH)
    found = VisionTransformer(state, GRID * PATCH)(images)
    assert found.shape == (3, WIDTH)
    assert found.std() > 0.1
    assert_close(found, reference(state, images), atol=2e-5, rtol=2e-5)


def cubic(x: float) -> float:
    """PyTorch's bicubic kernel (a = -3/4)."""
    x = abs(x)
    a = -0.75
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def test_positions_are_resized_with_the_official_offset() -> None:
    """From 37 x 37 to 16 x 16, with a step of 37 / 16.1 and edges that repeat."""
    embedding = torch.randn(1, 1 + 37 * 37, 2)
    matrix = torch.zeros(16, 37)
    for row in range(16):
        at = (row + 0.5) * 37 / 16.1 - 0.5
        for tap in range(-1, 3):
            matrix[row, min(max(int(np.floor(at)) + tap, 0), 36)] += cubic(at - np.floor(at) - tap)
    square = embedding[0, 1:].reshape(37, 37, 2)
    expected = torch.einsum("ai,bj,ijd->abd", matrix, matrix, square).reshape(256, 2)
    found = positions(embedding, 16)
    assert_close(found[0, 1:], expected, atol=1e-5, rtol=1e-5)
    assert found[:, :1].equal(embedding[:, :1])
    assert positions(embedding, 37) is embedding


def test_images_enter_as_in_dgm_eval(tmp_path: Path) -> None:
    """The input equals torchvision's Resize of a Pillow image, ToTensor and Normalize: enlarged from 32 px, and
    reduced from 300 x 280."""
    save_file(tensors(37), tmp_path / "dinov2.safetensors")
    extractor = DINOv2Extractor(tmp_path / "dinov2.safetensors")
    seen: list[Tensor] = []
    extractor.network.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    theirs = transforms.Compose(
        [
            transforms.Resize((224, 224), transforms.InterpolationMode.BICUBIC),
            transforms.ToTensor(),
            transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )
    for shape in ((2, 32, 32, 3), (2, 300, 280, 3)):
        images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        found = extractor(torch.from_numpy(images).permute(0, 3, 1, 2))
        assert found.features.shape == (2, WIDTH)
        assert found.logits is None
        assert_close(seen.pop(), torch.stack([theirs(Image.fromarray(each)) for each in images]))


def test_the_official_file_is_read_without_its_mask(tmp_path: Path) -> None:
    state = tensors(37)
    torch.save(state | {"mask_token": torch.zeros(1, WIDTH)}, tmp_path / "dinov2.pth")
    assert networks.dinov2(tmp_path / "dinov2.pth").keys() == state.keys()
    VisionTransformer(networks.dinov2(tmp_path / "dinov2.pth"), 224)


def test_the_protocol_is_that_of_dgm_eval() -> None:
    protocol = load("paper").params.protocols["dinov2"]
    assert (protocol.k, protocol.strict, protocol.required("cifar10")) == (5, True, 50000)
    assert protocol.pr_samples == protocol.pr_reference == 10000
    with pytest.raises(ValueError, match="dinov2 goes with resize: pillow"):
        Protocol.model_validate(protocol.model_dump() | {"resize": "tf1"})
