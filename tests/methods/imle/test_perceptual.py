"""Projections in half precision, as a GPU keeps them."""

import pytest
import torch
import torch.nn.functional as F

from rtm.methods.imle import perceptual


def test_projections_have_the_drawn_rows() -> None:
    wide, narrow = perceptual._projections([3000, 1000], 40, 7, torch.device("cpu"))
    rows = perceptual.normal(perceptual.seed_of(7, "projection", 0), torch.arange(30), 3000)
    assert torch.equal(wide, F.normalize(rows).T) and narrow.shape == (1000, 10)


def test_half_precision_changes_distances_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perceptual, "_SLICE", 700)  # several slices, the last one smaller
    torch.manual_seed(0)
    features, (exact,) = torch.rand(6, 3000), perceptual._projections([3000], 40, 7, torch.device("cpu"))
    expected, rounded = features @ exact, perceptual._projected(features, exact.half())
    assert rounded.dtype == torch.float32 and not torch.equal(rounded, expected)
    torch.testing.assert_close(rounded, features @ exact.half().float(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(torch.pdist(rounded), torch.pdist(expected), rtol=1e-3, atol=1e-4)
