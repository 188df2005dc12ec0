"""Other packages give the same values of the same features; a wrong value is seen."""

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from rtm.config import load
from rtm.metrics import witnesses
from rtm.metrics.features import FeatureSet
from rtm.metrics.image_set import ImageSet
from rtm.metrics.witnesses import Comparison, rows

PROTOCOL = load("paper").params.protocols["paper"].model_copy(update={"k": 3, "splits": 5, "pr_samples": None})


def image_set(seed: int, count: int, moved: float) -> ImageSet:
    generator = np.random.default_rng(seed)
    features: NDArray[np.float32] = (generator.normal(size=(count, 16)) + moved).astype(np.float32)
    logits: NDArray[np.float32] = generator.normal(size=(count, 10)).astype(np.float32)
    both = FeatureSet(features, logits)
    return ImageSet(both, both, {})


@pytest.mark.slow(seconds=40)
def test_every_package_gives_our_values() -> None:
    found = list(rows(image_set(0, 300, 0.1), image_set(1, 400, 0.0), PROTOCOL))
    names = {(row.package, row.metric) for row in found}
    assert names >= {("torch-fidelity", name) for name in ("fid", "kid", "is", "precision", "recall")}
    assert names >= {("prdc", name) for name in ("precision", "recall", "density", "coverage")}
    assert not [row for row in found if row.differs]
    assert all(min(row.seconds) >= 0 for row in found)


def test_a_wrong_value_is_more_than_rounding() -> None:
    row = partial(Comparison, "fid", "torch-fidelity", 10.0, seconds=(1.0, 1.0), megabytes=(1.0, 1.0), tolerance=1e-3)
    assert not row(10.0005).differs
    assert row(10.002).differs


def test_without_classes_there_is_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(compute: witnesses.Computation, *_: object) -> witnesses.Answer:
        asked.append(compute.__name__)
        return witnesses.Answer({}, 0.0, 0.0)

    monkeypatch.setattr(witnesses, "measured", answer)
    features = FeatureSet(image_set(0, 20, 0.0).quality.features, None)
    plain = ImageSet(features, features, {})
    assert not list(rows(plain, plain, PROTOCOL))
    assert "torch_fidelity_moments" in asked and "torch_fidelity_scores" not in asked
