"""Projections in half precision, as a GPU keeps them."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.core.randomness import normal, seed_of
from rtm.methods.imle import perceptual


def test_projections_have_the_drawn_rows() -> None:
    wide, narrow = perceptual._projections([3000, 1000], 40, 7, torch.device("cpu"))
    rows = normal(seed_of(7, "projection", 0), torch.arange(30), 3000)
    assert torch.equal(wide, F.normalize(rows).T) and narrow.shape == (1000, 10)


class Maps(nn.Module):
    """Two layers of unit maps, as LPIPS has them."""

    def forward(self, images: Tensor) -> list[Tensor]:
        return [perceptual._unit(x) for x in (images, F.avg_pool2d(images, 2))]


def test_half_precision_changes_distances_little() -> None:
    """On a GPU the maps come out of TF32 convolutions, whose inputs have as many bits."""
    torch.manual_seed(0)
    phi, images = perceptual.Embedding(Maps(), 32, 200, 7, torch.device("cpu")), torch.randn(6, 3, 32, 32)
    exact = phi(images)
    assert phi.projections is not None
    phi.projections = [p.half() for p in phi.projections]
    rounded = phi(images)
    assert rounded.dtype == torch.float32 and not torch.equal(rounded, exact)
    torch.testing.assert_close(torch.pdist(rounded), torch.pdist(exact), rtol=1e-3, atol=0)
