"""The result sentence: which rows it compares, its interval, and its words for one seed and for many."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support import fake_results
from support.reports import DEMO, PAPER

from rtm.reports.comparison import comparisons, differences, interval
from rtm.reports.sheets import build


def test_the_interval_is_students() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 10):
        a, b = rng.normal(size=(2, n))
        expected = stats.ttest_rel(a, b).confidence_interval(0.95)
        assert interval((a - b).tolist()) == pytest.approx((expected.low, expected.high))
    assert all(map(math.isnan, interval([1.0])))


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    covered = [low <= 0.3 <= high for low, high in (interval(rng.normal(0.3, 2.0, 3).tolist()) for _ in range(2000))]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("ours", "verdict"), [(225.0, "these seeds do not decide"), (20.0, "is better"), (900.0, "is worse")]
)
def test_rows_of_one_recipe_are_compared_seed_by_seed(ours: float, verdict: str, tmp_path: Path) -> None:
    config = DEMO.at(tmp_path)
    for name in DEMO.experiments:
        fid, spread = (ours, 0.1) if name == "digits_rtm" else (225.3, 0.3)
        fake_results.write_results(config, name, {"digits": {"fid": fid}}, spread=spread)
    (sentence,) = comparisons(build(config, "tab_digits"))
    assert sentence.startswith("On Digits-300, RTM ($H=8$, $L=1$) has FID ")
    assert "8-layer MLP 225.3" in sentence
    assert sentence.endswith(f"{verdict}.")
    assert "Student's t over 3 paired seeds" in sentence


def test_what_is_not_measured_or_has_one_seed_has_no_interval(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    fake_results.write_results(config, "cifar10_imle_rtm", {"paper": {"fid": 3.9}})
    assert comparisons(build(config, "tab_cifar10")) == []
    fake_results.write_results(config, "cifar10_imle_mlp", {"paper": {"fid": 5.8}})
    sheet = build(config, "tab_cifar10")
    (sentence,) = comparisons(sheet)
    assert sentence.endswith("One seed gives no interval.")
    assert list(differences(sheet)) == []


def test_all_columns_of_paired_rows_are_in_the_notes(tmp_path: Path) -> None:
    config = DEMO.at(tmp_path)
    for name in DEMO.experiments:
        fake_results.write_results(config, name, {"digits": {"recall": 0.2 + 0.1 * ("rtm" in name)}}, spread=0.1)
    notes = list(differences(build(config, "tab_digits")))
    assert notes[0].startswith("RTM (H=8, L=1) minus 8-layer MLP, mean and 95 % interval by ")
    assert len(notes) == 3
    assert all("Student's t over 3 paired seeds" in note for note in notes)
    low, high = interval([0.09, 0.1, 0.11])
    assert f"Rec. +0.100 (+{low:.3f} to +{high:.3f})" in notes[0]
    assert not any("Time" in note for note in notes)
