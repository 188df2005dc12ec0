"""The metrics of a protocol are those of its features, each with its interval."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support import own_classes
from support.image_sets import PROTOCOL, image_set

from rtm.config.catalogue import METRICS, Metric
from rtm.metrics import measure
from rtm.metrics.features import FeatureSet
from rtm.metrics.fid import Statistics, frechet_distance, frechet_floor
from rtm.metrics.image_set import ImageSet
from rtm.metrics.inception_score import inception_score
from rtm.metrics.kid import kernel_distance
from rtm.metrics.prdc import prdc


def with_logits(images: ImageSet, logits: NDArray[np.float32] | None) -> ImageSet:
    return replace(images, quality=FeatureSet(images.quality.features, logits))


def test_a_protocol_uses_the_features_it_names() -> None:
    fake = image_set(80, 0)
    real = image_set(120, 1)
    assert fake.quality.logits is not None
    fid = frechet_distance(real.quality.features, fake.quality.features)
    kid, kid_error = kernel_distance(real.quality.features, fake.quality.features)
    score, spread = inception_score(fake.quality.logits, 2)
    floor, sizes = frechet_floor(Statistics.of(real.quality.features), 80)
    expected = {"fid": fid, "fid_floor": floor, "kid": kid, "kid_se": kid_error, "is": score, "is_std": spread}
    expected |= prdc(real.coverage.features, fake.coverage.features[:50], k=3)
    result = measure.measure(fake, real, PROTOCOL)
    assert result.metrics == pytest.approx(expected, abs=1e-6)
    assert result.floor == sizes == (60, 60)
    assert set(result.intervals) == {"fid", "kid", "is", "precision", "recall", "density", "coverage"}
    for name, (low, high) in result.intervals.items():
        assert low <= result.metrics[name] <= high


def test_the_digit_classifier_says_how_many_digits_can_be_read() -> None:
    shares = np.array([[0.95, 0.05], [0.91, 0.09], [0.89, 0.11], [0.5, 0.5]], np.float32)
    fake = with_logits(image_set(80, 0), np.log(shares).repeat(20, axis=0))
    digits = PROTOCOL.model_copy(update={"extractor": "digit_classifier"})
    assert measure.measure(fake, image_set(80, 1), digits).metrics["sure"] == 0.5
    assert "sure" not in measure.measure(fake, image_set(80, 1), PROTOCOL).metrics


def test_without_classes_there_is_no_inception_score() -> None:
    fake = with_logits(image_set(80, 0), None)
    assert "is" not in measure.measure(fake, image_set(80, 1), PROTOCOL).metrics


MODULE = """
def spread(fake, real, protocol):
    return {"spread": float(fake.quality.features.std() / real.quality.features.std()) * protocol.k}
"""


def test_a_row_of_the_catalogue_adds_its_own_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_classes.install(tmp_path, "own_metrics", MODULE, monkeypatch)
    monkeypatch.setitem(METRICS, "spread", Metric("spread", "spread", compute="own_metrics:spread"))
    images = image_set(80, 0)
    assert measure.measure(images, images, PROTOCOL).metrics["spread"] == 3
