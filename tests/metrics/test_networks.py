"""The networks of a protocol: each runs once, and other weights are refused."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.image_sets import PROTOCOL, image_set
from support.images import pixels

from rtm.core.errors import UserError
from rtm.metrics import networks as module
from rtm.metrics.features import Extractor, Features
from rtm.metrics.networks import Networks

WEIGHTS = {"inception": Path("inception"), "vgg16": Path("vgg16")}


class Means(Extractor):
    """Its features are the means of an image's channels. It counts the images."""

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.digest = f"digest of {weights}"
        self.count = 0

    def forward(self, images: torch.Tensor) -> Features:
        self.count += len(images)
        return Features(images.float().mean((2, 3)), None)


@pytest.fixture
def means(monkeypatch: pytest.MonkeyPatch) -> None:
    """All networks are `Means`."""
    monkeypatch.setattr(module, "extractor_of", lambda name, weights, resize: Means(weights))


@pytest.mark.usefixtures("means")
def test_each_network_runs_once_and_only_on_the_images_it_is_needed_for() -> None:
    images = pixels(100)
    networks = Networks(PROTOCOL, WEIGHTS)
    two: dict[str, Any] = networks.extractors
    features = networks.image_set(images, 80, PROTOCOL.pr_samples)
    assert (two["inception"].count, two["vgg16"].count) == (80, 50)
    assert (len(features.quality), len(features.coverage)) == (80, 50)
    np.testing.assert_allclose(features.coverage.features, images[:50].mean((1, 2)), rtol=1e-5)
    shared = PROTOCOL.model_copy(update={"pr_extractor": "inception"})
    networks = Networks(shared, WEIGHTS)
    one: dict[str, Any] = networks.extractors
    features = networks.image_set(images, 80, shared.pr_samples)
    assert list(one) == ["inception"]
    assert one["inception"].count == 80
    assert features.coverage is features.quality
    assert len(networks.image_set(images).quality) == 100


@pytest.mark.usefixtures("means")
def test_a_reference_by_other_weights_is_refused() -> None:
    networks = Networks(PROTOCOL, WEIGHTS)
    assert networks.digests == {name: f"digest of {name}" for name in WEIGHTS}
    networks.refuse_others(replace(image_set(9, 1), extractors=networks.digests))
    with pytest.raises(UserError, match="other weights"):
        networks.refuse_others(image_set(9, 1))
