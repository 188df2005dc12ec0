"""The way from images to a protocol's numbers, and the references that are kept in files."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from support.images import pixels

from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.core.layout import Layout
from rtm.metrics import evaluate, frechet_distance, inception_score, kernel_distance, prdc
from rtm.metrics.evaluate import ImageSet, check_count, features_of, load_extractors, measure
from rtm.metrics.features import Extractor, Features, FeatureSet
from rtm.metrics.fid import Statistics, frechet_floor


def seen(count: int, seed: int, logits: bool = True, weights: str = "one") -> ImageSet:
    rng = np.random.default_rng(seed)
    quality = FeatureSet(
        rng.normal(size=(count, 6)).astype(np.float32),
        rng.normal(size=(count, 4)).astype(np.float32) if logits else None,
    )
    return ImageSet(quality, FeatureSet(rng.normal(size=(count, 5)).astype(np.float32), None), {"inception": weights})


PROTOCOL = Protocol(
    title="a test", extractor="inception", pr_extractor="vgg16", resize="tf1", k=3, strict=True, splits=2,
    samples={"default": 80}, pr_samples=50,
)  # fmt: skip


def test_a_protocol_uses_the_features_it_names() -> None:
    fake, real = seen(80, 0), seen(120, 1)
    measured = measure(fake, real, PROTOCOL)
    assert fake.quality.logits is not None
    score = inception_score(fake.quality.logits, 2)
    expected = {"fid": frechet_distance(real.quality.features, fake.quality.features)}
    expected |= {"is": score[0], "is_std": score[1]}
    expected |= dict(zip(("kid", "kid_se"), kernel_distance(real.quality.features, fake.quality.features), strict=True))
    expected["fid_floor"], sizes = frechet_floor(Statistics.of(real.quality.features), 80)
    expected |= prdc(real.coverage.features, fake.coverage.features[:50], k=3)
    assert measured.metrics == pytest.approx(expected, abs=1e-6)
    assert measured.floor == sizes == (60, 60)
    assert set(measured.intervals) == {"fid", "kid", "is", "precision", "recall", "density", "coverage"}
    for name, (low, high) in measured.intervals.items():
        assert low <= measured.metrics[name] <= high


def test_the_digit_classifier_says_how_many_digits_can_be_read() -> None:
    logits = np.log([[0.95, 0.05], [0.91, 0.09], [0.89, 0.11], [0.5, 0.5]]).repeat(20, axis=0).astype(np.float32)
    fake = seen(80, 0)
    fake = replace(fake, quality=replace(fake.quality, logits=logits))
    chosen = PROTOCOL.model_copy(update={"extractor": "digit_classifier"})
    assert measure(fake, seen(80, 1), chosen).metrics["sure"] == 0.5
    assert "sure" not in measure(fake, seen(80, 1), PROTOCOL).metrics


def test_without_classes_there_is_no_inception_score() -> None:
    assert "is" not in measure(seen(80, 0, logits=False), seen(80, 1), PROTOCOL).metrics


class _Means(Extractor):
    """Its features are the means of an image's channels. It counts the images."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.digest, self.count = f"digest of {name}", 0

    def forward(self, images: torch.Tensor) -> Features:
        self.count += len(images)
        return Features(images.float().mean((2, 3)), None)


def test_each_network_runs_once_and_only_on_the_images_it_is_needed_for() -> None:
    two: dict[str, Any] = {name: _Means(name) for name in ("inception", "vgg16")}
    images = pixels(100)
    made = features_of(images, PROTOCOL, two, 80, PROTOCOL.pr_samples)
    assert (two["inception"].count, two["vgg16"].count) == (80, 50)
    assert (len(made.quality), len(made.coverage)) == (80, 50)
    np.testing.assert_allclose(made.coverage.features, images[:50].mean((1, 2)), rtol=1e-5)
    shared = PROTOCOL.model_copy(update={"pr_extractor": "inception"})
    one: dict[str, Any] = {"inception": _Means("inception")}
    made = features_of(images, shared, one, 80, shared.pr_samples)
    assert one["inception"].count == 80 and made.coverage is made.quality
    assert len(features_of(images, shared, one).quality) == 100


def test_too_few_samples_are_refused() -> None:
    check_count(pixels(80), 80)
    with pytest.raises(UserError, match="asks for 80 samples and there are 79"):
        check_count(pixels(79), 80)


def test_a_reference_by_other_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "extractor_of", lambda name, protocol, layout: _Means(name))
    right = {"inception": "digest of inception", "vgg16": "digest of vgg16"}
    loaded = load_extractors(PROTOCOL, Layout(tmp_path, tmp_path), replace(seen(9, 1), extractors=right))
    assert list(loaded) == ["inception", "vgg16"]
    with pytest.raises(UserError, match="other weights"):
        load_extractors(PROTOCOL, Layout(tmp_path, tmp_path), seen(9, 1))


def test_a_reference_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = seen(20, 2)
    for one in (written, replace(written, coverage=written.quality)):
        one.save(tmp_path / "digits" / "protocol.safetensors")
        read = ImageSet.load(tmp_path / "digits" / "protocol.safetensors")
        np.testing.assert_array_equal(read.quality.features, one.quality.features)
        np.testing.assert_array_equal(read.coverage.features, one.coverage.features)
        assert read.extractors == one.extractors
    with pytest.raises(UserError, match="rtm reference digits absent"):
        ImageSet.load(tmp_path / "digits" / "absent.safetensors")
    path = tmp_path / "digits" / "protocol.safetensors"
    for save in (lambda: path.write_bytes(path.read_bytes()[:-9]), lambda: save_file({"other": torch.zeros(2)}, path)):
        save()
        with pytest.raises(UserError, match=r"protocol\.safetensors is damaged .* `rtm reference digits protocol`"):
            ImageSet.load(path)
