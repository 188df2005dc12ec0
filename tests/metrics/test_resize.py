"""Each kind of resizing equals the function that it is named after."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.testing import assert_close
from torch_fidelity.interpolate_compat_tensorflow import interpolate_bilinear_2d_like_tensorflow1x
from torchvision.transforms.functional import normalize, pil_to_tensor, to_tensor

from rtm.metrics.resize import KERNELS, imagenet_normalised, resized, resized_by_pillow

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]  # ImageNet's, from torchvision's documentation


@pytest.mark.parametrize("size", [(32, 32), (512, 300), (299, 299), (64, 48)])
def test_resizes_equal_those_they_are_named_after(size: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    image = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    theirs_tf1 = interpolate_bilinear_2d_like_tensorflow1x(image.float(), size=(299, 299), align_corners=False)
    assert torch.allclose(resized(image, "tf1", 299), theirs_tf1, atol=2e-3)  # of 255; their positions are float32
    half = nn.functional.interpolate(image.float(), (299, 299), mode="bilinear", align_corners=False)
    assert torch.allclose(resized(image, "torch", 299), half, atol=2e-3)
    channels = [Image.fromarray(pixels[..., c].astype(np.float32)) for c in range(3)]
    pil = np.stack([np.asarray(c.resize((299, 299), Image.Resampling.BICUBIC)) for c in channels])
    assert torch.allclose(resized(image, "pil_bicubic", 299)[0], torch.from_numpy(pil), atol=1e-3)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("size", [(7, 16), (40, 5)])
def test_a_flat_image_stays_flat_to_its_edges(kernel: str, size: tuple[int, int]) -> None:
    flat = torch.full((2, 3, *size), 200, dtype=torch.uint8)
    assert_close(resized(flat, kernel, 12), torch.full((2, 3, 12, 12), 200.0))


def test_pillow_rounds_to_8_bits_and_networks_see_what_torchvision_gives_them() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 30, 20, 3), dtype=np.uint8)
    small = resized_by_pillow(torch.from_numpy(pixels).permute(0, 3, 1, 2), 8, Image.Resampling.BILINEAR)
    pictures = [Image.fromarray(each).resize((8, 8), Image.Resampling.BILINEAR) for each in pixels]
    assert small.dtype == torch.uint8
    assert torch.equal(small, torch.stack([pil_to_tensor(each) for each in pictures]))
    expected = torch.stack([normalize(to_tensor(each), MEAN, STD) for each in pictures])
    assert_close(imagenet_normalised(small), expected)
