"""Features are the same in any batch and from a memory map, and their identity depends on the weights."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from support.images import pictures

from rtm.metrics.digits import DigitsExtractor
from rtm.metrics.features import extract
from rtm.models.digits import DigitClassifier


@pytest.fixture
def digits(tmp_path: Path) -> DigitsExtractor:
    torch.manual_seed(0)
    save_file(DigitClassifier().state_dict(), tmp_path / "digit_classifier.safetensors")
    return DigitsExtractor(tmp_path / "digit_classifier.safetensors")


def test_features_do_not_depend_on_the_batch_and_keep_the_order(digits: DigitsExtractor) -> None:
    images = pictures(23, 8, 6)
    whole = extract(images, digits, 64, "cpu")
    assert whole.logits is not None
    assert whole.features.shape == (23, 64)
    assert whole.logits.shape == (23, 10)
    for batch in (1, 7, 23):
        parts = extract(images, digits, batch, "cpu")
        assert parts.logits is not None
        np.testing.assert_allclose(parts.features, whole.features, atol=1e-6)
        np.testing.assert_allclose(parts.logits, whole.logits, atol=1e-6)
    np.testing.assert_allclose(extract(images[::-1], digits, 5, "cpu").features, whole.features[::-1], atol=1e-6)


def test_the_identity_follows_the_weights(digits: DigitsExtractor, tmp_path: Path) -> None:
    torch.manual_seed(1)
    save_file(DigitClassifier().state_dict(), tmp_path / "other.safetensors")
    assert DigitsExtractor(tmp_path / "other.safetensors").digest != digits.digest
    assert DigitsExtractor(tmp_path / "digit_classifier.safetensors").digest == digits.digest
