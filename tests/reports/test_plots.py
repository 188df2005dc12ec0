"""Sweeps and scatter plots show the right numbers, and labels do not overlap."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from support import fake_results
from support.reports import DEMO, PAPER

from rtm.config import Config
from rtm.reports import plots


def test_a_sweep_shows_the_summary(demo: Config) -> None:
    canvas = Canvas()
    plots.sweep(canvas, demo, DEMO.figures["fig_digits_sweep"], {"digits_rtm": "RTM"})
    for axes in canvas.axes:
        ((line, _caps, bars),) = axes.containers
        assert list(line.get_xdata()) == [4, 8, 16, 32]
        assert list(line.get_ydata()) == pytest.approx([0.5] * 4)
        low, high = bars[0].get_segments()[0][:, 1]
        assert (high - low) / 2 == pytest.approx(0.05)  # the seeds have 0.45, 0.5 and 0.55


def test_precision_against_recall_separates_ours_from_published(tmp_path: Path) -> None:
    config = PAPER.at(tmp_path)
    for name in ("cifar10_imle_mlp", "cifar10_imle_rtm"):
        fake_results.write_results(config, name, {"paper": {"precision": 0.9, "recall": 0.7}})
    canvas = Canvas()
    plots.precision_recall(canvas, config, PAPER.figures["fig_precision_recall_cifar10"], {})
    lines = canvas.axes[0].lines
    solid = [line for line in lines if line.get_markerfacecolor() != "none"]
    assert (len(lines), len(solid)) == (16, 2)
    assert all(np.array_equal(line.get_xydata(), [[0.7, 0.9]]) for line in solid)


def test_labels_of_a_cluster_do_not_meet() -> None:
    """For the methods of the paper's Table 1: labels overlap neither each other nor a point, and stay near."""
    rows = [row for group in PAPER.tables["tab_cifar10"].groups for row in group.rows]
    values = [PAPER.params.published[str(row.published or row.paper)].values for row in rows]
    points = np.array([[each["recall"], each["precision"]] for each in values if "recall" in each])
    points = (points - points.min(0)) / np.ptp(points, axis=0) * (plots.WIDER, 1.0)
    labels = plots.place_labels(points)
    for place, label in enumerate(labels):
        others = np.delete(labels, place, 0)
        assert np.linalg.norm(others - label, axis=1).min() > 0.06
        distances = np.linalg.norm(points - label, axis=1)
        assert distances.min() > 0.04
        assert distances[place] < 0.25
