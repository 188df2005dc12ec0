"""The networks behind the metrics by name. They are imported only when used."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

from rtm.config.classes import imported

if TYPE_CHECKING:
    from rtm.metrics.features import Extractor

EXTRACTORS = {
    "inception": "rtm.metrics.inception:InceptionExtractor",
    "dinov2": "rtm.metrics.dinov2:DINOv2Extractor",
    "vgg16": "rtm.metrics.vgg16:VGG16Extractor",
    "digit_classifier": "rtm.metrics.digits:DigitsExtractor",
}


def extractor_of(name: str, weights: Path, resize: str) -> "Extractor":
    """The network with this name, or an object of a user's class "package.module:Class"."""
    return cast("Extractor", imported(EXTRACTORS.get(name, name))(weights, resize))
