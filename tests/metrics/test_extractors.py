"""Networks behind the metrics by name: ours are imported when used, a user's class comes in by the same door."""

from pathlib import Path

import pytest
import torch
from support import own_classes

from rtm.config.classes import imported
from rtm.core.errors import UserError
from rtm.metrics.extractors import EXTRACTORS, extractor_of
from rtm.metrics.features import Extractor

MODULE = """
from rtm.metrics.features import Extractor, Features


class Means(Extractor):
    title = "means of channels"

    def __init__(self, weights, resize):
        super().__init__()
        self.digest = f"{weights} {resize}"

    def forward(self, images):
        return Features(images.float().mean((2, 3)), None)
"""


@pytest.mark.parametrize("name", EXTRACTORS)
def test_ours_are_extractors(name: str) -> None:
    assert issubclass(imported(EXTRACTORS[name]), Extractor)


def test_a_class_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_classes.install(tmp_path, "own_features", MODULE, monkeypatch)
    extractor = extractor_of("own_features:Means", Path("w"), "none")
    assert extractor.digest == "w none"
    assert extractor(torch.ones(2, 3, 4, 4)).features.tolist() == [[1, 1, 1], [1, 1, 1]]
    with pytest.raises(UserError, match="The module own_features has no Meens"):
        extractor_of("own_features:Meens", Path("w"), "none")
