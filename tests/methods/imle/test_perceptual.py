"""The perceptual space is LPIPS. Its features are unit vectors, also in half precision, which a GPU uses."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from rtm.core.randomness import normal, seed_of
from rtm.methods.imle import perceptual
from rtm.methods.imle.perceptual import LPIPS, Embedding, distance, maps_of_all


def test_projections_have_the_drawn_rows() -> None:
    wide, narrow = perceptual._projections([3000, 1000], 40, 7, torch.device("cpu"))
    rows = normal(seed_of(7, "projection", 0), torch.arange(30), 3000)
    assert torch.equal(wide, F.normalize(rows).T)
    assert narrow.shape == (1000, 10)


class Maps(nn.Module):
    """Two layers of unit maps, like LPIPS."""

    def forward(self, images: Tensor) -> list[Tensor]:
        return [perceptual._unit(x) for x in (images, F.avg_pool2d(images, 2))]


def test_half_precision_changes_distances_little() -> None:
    """On a GPU the maps come from TF32 convolutions, whose inputs have as many bits as half precision."""
    torch.manual_seed(0)
    phi = perceptual.Embedding(Maps(), 32, 200, 7, torch.device("cpu"))
    images = torch.randn(6, 3, 32, 32)
    exact = phi(images)
    assert phi.projections is not None
    phi.projections = [p.half() for p in phi.projections]
    rounded = phi(images)
    assert rounded.dtype == torch.float32
    assert not torch.equal(rounded, exact)
    assert_close(torch.pdist(rounded), torch.pdist(exact), rtol=1e-3, atol=0)


@pytest.fixture(scope="module")
def vgg_lpips() -> tuple[LPIPS, torch.nn.Module]:
    """Our LPIPS and the package's, both with the same random VGG16 and the package's heads."""
    import lpips

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package still uses torchvision's old arguments
        theirs = lpips.LPIPS(net="vgg", pnet_rand=True, verbose=False).eval()
    layers = [layer for part in range(1, 6) for layer in getattr(theirs.net, f"slice{part}")]
    heads = [getattr(theirs, f"lin{layer}").model[1].weight.detach() for layer in range(5)]
    return LPIPS(torch.nn.Sequential(*layers), heads), theirs


def test_the_perceptual_term_is_lpips(vgg_lpips: tuple[LPIPS, torch.nn.Module]) -> None:
    ours, theirs = vgg_lpips
    x, y = torch.rand(2, 3, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 2 - 1
    with torch.no_grad():
        assert_close(
            distance(ours(x), ours(y)),
            theirs(x, y).flatten(),
            rtol=1e-4,
            atol=1e-6,
        )


def test_matching_features_are_unit_vectors_of_the_asked_size(vgg_lpips: tuple[LPIPS, torch.nn.Module]) -> None:
    images = torch.rand(4, 3, 32, 32) * 2 - 1
    phi = Embedding(vgg_lpips[0], 32, 50, 0, torch.device("cpu"))
    features = phi(images)
    assert features.shape == (4, 50)
    assert_close(features.norm(dim=1), torch.ones(4))
    assert torch.equal(features, Embedding(vgg_lpips[0], 32, 50, 0, torch.device("cpu"))(images))
    assert not torch.allclose(features, Embedding(vgg_lpips[0], 32, 50, 1, torch.device("cpu"))(images))


def test_kept_maps_are_those_of_any_batch(vgg_lpips: tuple[LPIPS, torch.nn.Module]) -> None:
    images = torch.rand(7, 3, 32, 32) * 2 - 1
    order = torch.tensor([5, 0, 6])
    with torch.no_grad():
        kept = maps_of_all((vgg_lpips[0](part) for part in images.split(3)), 7)
        assert kept is not None
        assert_close([each[order] for each in kept], vgg_lpips[0](images[order]), rtol=1e-4, atol=1e-6)
