"""Other packages give the same values of the same features; a wrong value is seen."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from rtm.config import load
from rtm.metrics import witnesses
from rtm.metrics.features import FeatureSet
from rtm.metrics.image_set import ImageSet
from rtm.metrics.witnesses import Answer, Comparison, Computation, measured, prdc_strict, rows

PROTOCOL = load("paper").params.protocols["paper"].model_copy(update={"k": 3, "splits": 5, "pr_samples": None})


def image_set(seed: int, count: int, moved: float) -> ImageSet:
    generator = np.random.default_rng(seed)
    features: NDArray[np.float32] = (generator.normal(size=(count, 16)) + moved).astype(np.float32)
    logits: NDArray[np.float32] = generator.normal(size=(count, 10)).astype(np.float32)
    both = FeatureSet(features, logits)
    return ImageSet(both, both, {})


def in_this_process(compute: Computation, fake: FeatureSet, real: FeatureSet, options: Mapping[str, int]) -> Answer:
    return Answer(compute(fake, real, options), 0.5, 10.0)


@pytest.mark.slow(seconds=3)
def test_every_package_gives_our_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witnesses, "measured", in_this_process)
    found = list(rows(image_set(0, 300, 0.1), image_set(1, 400, 0.0), PROTOCOL))
    names = {(row.package, row.metric) for row in found}
    assert names >= {("torch-fidelity", name) for name in ("fid", "kid", "is", "precision", "recall")}
    assert names >= {("prdc", name) for name in ("precision", "recall", "density", "coverage")}
    assert not [row for row in found if row.differs]


@pytest.mark.slow(seconds=6)
def test_time_and_memory_are_of_a_process_of_its_own() -> None:
    fake = image_set(0, 300, 0.1).coverage
    real = image_set(1, 400, 0.0).coverage
    answer = measured(prdc_strict, fake, real, {"k": 3, "splits": 5})
    assert answer.values == prdc_strict(fake, real, {"k": 3, "splits": 5})
    assert answer.seconds >= 0 and 0 <= answer.megabytes < 1000


def test_a_wrong_value_is_more_than_rounding() -> None:
    row = partial(Comparison, "fid", "torch-fidelity", 10.0, seconds=(1.0, 1.0), megabytes=(1.0, 1.0), tolerance=1e-3)
    assert not row(10.0005).differs
    assert row(10.002).differs


def test_without_classes_there_is_no_score(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(compute: Computation, *_: object) -> Answer:
        asked.append(compute.__name__)
        return Answer({}, 0.0, 0.0)

    monkeypatch.setattr(witnesses, "measured", answer)
    features = FeatureSet(image_set(0, 20, 0.0).quality.features, None)
    plain = ImageSet(features, features, {})
    assert not list(rows(plain, plain, PROTOCOL))
    assert "torch_fidelity_moments" in asked and "torch_fidelity_scores" not in asked
