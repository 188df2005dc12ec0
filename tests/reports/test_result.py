"""The result sentence: which rows it compares, its interval, and its words for one seed and for many."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support import ROOT, fake_results

from rtm.config import load
from rtm.core.layout import Layout
from rtm.reports.cells import build
from rtm.reports.result import differences, interval, results

DEMO, PAPER = (load(scale, ROOT / "params") for scale in ("demo", "paper"))


def test_the_interval_is_students() -> None:
    rng = np.random.default_rng(0)
    for n in (2, 3, 10):
        a, b = rng.normal(size=(2, n))
        expected = stats.ttest_rel(a, b).confidence_interval(0.95)
        assert interval((a - b).tolist()) == pytest.approx((expected.low, expected.high))
    assert all(map(math.isnan, interval([1.0])))


def test_it_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = [low <= 0.3 <= high for low, high in (interval(rng.normal(0.3, 2.0, 3).tolist()) for _ in range(2000))]
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(
    ("ours", "verdict"), [(225.0, "these seeds do not decide"), (20.0, "is better"), (900.0, "is worse")]
)
def test_rows_of_one_recipe_are_compared_seed_by_seed(ours: float, verdict: str, tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name in DEMO.experiments:
        fid, spread = (ours, 0.1) if name == "digits_rtm" else (225.3, 0.3)
        fake_results.write_results(DEMO, layout, name, {"digits": {"fid": fid}}, spread=spread)
    (found,) = results(DEMO, layout, build(DEMO, layout, "tab_digits"))
    assert found.seeds == 3 and found.low < found.difference < found.high
    assert found.text.startswith("On Digits-300, RTM ($H=8$, $L=1$) has FID ") and "8-layer MLP 225.3" in found.text
    assert found.text.endswith(f"{verdict}.") and "Student's t over 3 paired seeds" in found.text


def test_what_is_not_measured_is_not_compared(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    fake_results.write_results(PAPER, layout, "cifar10_imle_rtm", {"paper": {"fid": 3.9}})
    assert results(PAPER, layout, build(PAPER, layout, "tab_cifar10")) == []
    fake_results.write_results(PAPER, layout, "cifar10_imle_mlp", {"paper": {"fid": 5.8}})
    (found,) = results(PAPER, layout, build(PAPER, layout, "tab_cifar10"))
    assert found.seeds == 1 and math.isnan(found.low) and found.text.endswith("One seed gives no interval.")


def test_all_columns_of_paired_rows_are_in_the_notes(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name in DEMO.experiments:
        fake_results.write_results(DEMO, layout, name, {"digits": {"recall": 0.2 + 0.1 * ("rtm" in name)}}, spread=0.1)
    found = list(differences(DEMO, layout, build(DEMO, layout, "tab_digits")))
    assert found[0].startswith("RTM (H=8, L=1) minus 8-layer MLP, mean and 95 % interval by ")
    assert len(found) == 3 and all("Student's t over 3 paired seeds" in note for note in found)
    low, high = interval([0.09, 0.1, 0.11])
    assert f"Rec. +0.100 (+{low:.3f} to +{high:.3f})" in found[0]
    assert not any("Time" in note for note in found)


def test_one_seed_gives_no_difference(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name in ("cifar10_imle_rtm", "cifar10_imle_mlp"):
        fake_results.write_results(PAPER, layout, name, {"paper": {"fid": 5.8}})
    assert list(differences(PAPER, layout, build(PAPER, layout, "tab_cifar10"))) == []
