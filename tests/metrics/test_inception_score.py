"""Inception score: against torch-fidelity and cases with a known answer."""

import numpy as np
import pytest
import torch
from torch_fidelity.metric_isc import isc_features_to_metric

from rtm.core.errors import UserError
from rtm.metrics.inception_score import inception_score


@pytest.mark.parametrize("splits", [1, 3, 10])
def test_inception_score_equals_torch_fidelity(rng: np.random.Generator, splits: int) -> None:
    logits = 3 * rng.normal(size=(205, 12)).astype(np.float32)
    expected = isc_features_to_metric(torch.from_numpy(logits), splits=splits)
    found = inception_score(logits, splits)
    assert found == pytest.approx((expected["inception_score_mean"], expected["inception_score_std"]), rel=1e-12)
    unshuffled = isc_features_to_metric(torch.from_numpy(logits), splits=splits, shuffle=False)
    assert inception_score(logits, splits, None)[0] == pytest.approx(unshuffled["inception_score_mean"], rel=1e-12)


def test_inception_score_of_known_cases() -> None:
    assert inception_score(np.zeros((50, 7)), 5) == pytest.approx((1, 0))
    sure = 1000 * np.eye(4)[np.arange(400) % 4]  # confident logits, and every class equally often
    assert inception_score(sure, 1) == pytest.approx((4, 0))


def test_inception_score_needs_an_image_a_split() -> None:
    with pytest.raises(UserError, match="10 splits needs at least 10 images"):
        inception_score(np.zeros((9, 3)), 10)
