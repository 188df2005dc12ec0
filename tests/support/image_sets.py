"""Features of pretended images, and a protocol for them."""

import numpy as np
from numpy.typing import NDArray

from rtm.config.experiments import Protocol
from rtm.metrics.features import FeatureSet
from rtm.metrics.image_set import ImageSet

PROTOCOL = Protocol(
    title="a test",
    extractor="inception",
    pr_extractor="vgg16",
    resize="tf1",
    k=3,
    strict=True,
    splits=2,
    samples={"default": 80},
    pr_samples=50,
)


def image_set(count: int, seed: int) -> ImageSet:
    rng = np.random.default_rng(seed)

    def rows(width: int) -> NDArray[np.float32]:
        return rng.normal(size=(count, width)).astype(np.float32)

    return ImageSet(FeatureSet(rows(6), rows(4)), FeatureSet(rows(5), None), {"inception": "one"})
