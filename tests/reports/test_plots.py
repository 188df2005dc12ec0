"""Curves, sweeps and scatter plots show the right numbers, and labels do not overlap."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from support import fake_results
from support.reports import DEMO, PAPER, SMOKE, figure

from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.core.layout import Layout
from rtm.reports import plots
from rtm.reports.figures import render_figure


def test_a_sweep_shows_the_summary(demo: Layout) -> None:
    canvas = Canvas()
    plots.sweep(canvas, DEMO, demo, DEMO.figures["fig_digits_sweep"], {"digits_rtm": "RTM"})
    for axes, metric in zip(canvas.axes, ("fid", "precision", "recall"), strict=True):
        ((line, _caps, bars),) = axes.containers
        assert list(line.get_xdata()) == [4, 8, 16, 32]
        assert list(line.get_ydata()) == pytest.approx([0.5] * 4)
        low, high = bars[0].get_segments()[0][:, 1]
        assert (high - low) / 2 == pytest.approx(0.05), metric  # the seeds have 0.45, 0.5 and 0.55


def test_curves_show_the_mean_and_the_range_of_the_seeds(demo: Layout) -> None:
    canvas = Canvas()
    plots.curves(canvas, DEMO, demo, DEMO.figures["fig_digits_curves"], {"digits_rtm": "RTM"})
    loss, share, loss_in_time, _ = canvas.axes
    (line,), (band,) = loss.lines, loss.collections
    assert np.asarray(line.get_xdata())[-1] == 100 and loss.get_xlabel() == "steps"
    assert np.asarray(line.get_ydata())[-1] == pytest.approx(2 / 10 + 0.01)  # the seeds add 0, 0.01 and 0.02
    border = np.asarray(band.get_paths()[0].vertices)
    last = border[border[:, 0] == 100, 1]
    assert (last.min(), last.max()) == pytest.approx((0.2, 0.22))
    assert share.get_ylabel() == "rejected share of the pool"
    assert np.asarray(loss_in_time.lines[0].get_xdata())[-1] == pytest.approx(30)
    assert loss_in_time.get_ylim() == loss.get_ylim()


def test_a_fast_seed_does_not_cut_the_others(tmp_path: Path) -> None:
    """One seed takes 10 seconds and the others 90: the line ends with the mean of the last step, at the mean time."""
    layout, seconds = Layout(tmp_path, tmp_path), {0: 10, 1: 90, 2: 90}
    for seed, last in seconds.items():
        rows = [f"{step},{last * step / 100},{500 - 4 * step + seed},0.5,0.5" for step in range(10, 101, 10)]
        write_text(layout.curve("digits_rtm", seed), "step,seconds,fid,precision,recall\n" + "\n".join(rows) + "\n")
    canvas = Canvas()
    plots.progress(canvas, DEMO, layout, DEMO.figures["fig_digits_progress"], {"digits_rtm": "RTM"})
    over_steps, over_time = (np.asarray(canvas.axes[place].lines[0].get_xydata())[-1] for place in (0, 3))
    assert over_steps == pytest.approx([100, 101]) and over_time == pytest.approx([190 / 3, 101])


def test_mappers_share_a_panel_and_batches_that_differ_an_axis_of_images(demo: Layout) -> None:
    names = {"digits_mlp8": "MLP", "digits_rtm": "RTM"}
    canvas = Canvas()
    plots.progress(canvas, DEMO, demo, DEMO.figures["fig_digits_progress"], names)
    assert [axes.get_ylabel() for axes in canvas.axes] == ["FID", "precision", "recall"] * 2
    assert all(len(axes.lines) == 2 for axes in canvas.axes)
    fid = canvas.axes[0].lines[0]
    assert list(np.asarray(fid.get_ydata())) == pytest.approx([4, 2, 4 / 3, 1], abs=1e-3)
    assert list(np.asarray(fid.get_xdata())) == [25, 50, 75, 100]
    twice = DEMO.experiment("digits_rtm").recipe.training.batch * 2
    other = replace(DEMO, experiments=dict(DEMO.experiments))
    rtm = other.experiments["digits_rtm"]
    training = rtm.recipe.training.model_copy(update={"batch": twice})
    other.experiments["digits_rtm"] = replace(rtm, recipe=rtm.recipe.model_copy(update={"training": training}))
    canvas = Canvas()
    plots.progress(canvas, other, demo, DEMO.figures["fig_digits_progress"], names)
    first, second = (np.asarray(line.get_xdata())[-1] for line in canvas.axes[0].lines)
    assert canvas.axes[0].get_xlabel() == "images seen" and second == 2 * first == 100 * twice


def test_the_rejected_share_goes_by_rounds(demo: Layout) -> None:
    canvas = Canvas()
    plots.rejected(canvas, DEMO, demo, figure("rejected"), {"digits_rtm": "RTM"})
    (axes,) = canvas.axes
    assert axes.get_xlabel() == "round"
    assert list(np.asarray(axes.lines[0].get_xdata())) == list(range(1, 11))


def test_a_training_of_one_round_is_drawn(tmp_path: Path) -> None:
    layout, names = Layout(tmp_path, tmp_path), SMOKE.figures["fig_rejected_fewshot"].experiments
    for share, name in enumerate(names):
        write_text(layout.curve(name, 0), f"step,seconds,rounds,rejected\n1,1,1,0.{share}\n2,2,1,\n")
    canvas = Canvas()
    plots.rejected(canvas, SMOKE, layout, figure("rejected"), {name: name for name in names})
    (axes,) = canvas.axes
    assert [np.asarray(line.get_xydata()).tolist() for line in axes.lines] == [
        [[1, share / 10]] for share in range(len(names))
    ]
    assert len({line.get_marker() for line in axes.lines} - {"", "None"}) == len(names)
    assert axes.get_ylim()[0] == 0
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_precision_against_recall_separates_ours_from_published(tmp_path: Path) -> None:
    layout, names = Layout(tmp_path, tmp_path), ("cifar10_imle_mlp", "cifar10_imle_rtm")
    for name in names:
        fake_results.write_results(PAPER, layout, name, {"paper": {"precision": 0.9, "recall": 0.7}})
    canvas = Canvas()
    chosen = PAPER.figures["fig_precision_recall_cifar10"]
    plots.precision_recall(canvas, PAPER, layout, chosen, {name: name for name in names})
    hollow = [line for line in canvas.axes[0].lines if line.get_markerfacecolor() == "none"]
    solid = [line for line in canvas.axes[0].lines if line.get_markerfacecolor() != "none"]
    assert len(hollow) == 14 and len(solid) == 2
    assert all(np.array_equal(line.get_xydata(), [[0.7, 0.9]]) for line in solid)


def crossing(first: plots.Points, second: plots.Points) -> bool:
    """Whether two lines, each from its [0] to its [1], cross."""

    def side(line: plots.Points, point: plots.Points) -> float:
        (ax, ay), (bx, by) = line[1] - line[0], point - line[0]
        return float(ax * by - ay * bx)

    pairs = ((first, second), (second, first))
    return all(side(line, other[0]) * side(line, other[1]) < 0 for line, other in pairs)


def test_labels_of_a_cluster_do_not_meet() -> None:
    """For the methods of the paper's Table 1: leaders do not cross, none passes close to another method, and labels do
    not overlap."""
    rows = (row for group in PAPER.tables["tab_cifar10"].groups for row in group.rows)
    values = [PAPER.params.published[str(row.published or row.paper)].values for row in rows]
    points = np.array([[each["recall"], each["precision"]] for each in values if "recall" in each])
    points = (points - points.min(0)) / np.ptp(points, axis=0) * (plots.WIDER, 1.0)
    labels = plots.place_labels(points)
    leaders = np.stack([points, labels], 1)
    for one, leader in enumerate(leaders):
        others = np.delete(np.arange(len(points)), one)
        assert not any(crossing(leader, leaders[other]) for other in others)
        assert np.linalg.norm(labels[others] - labels[one], axis=1).min() > 0.06
        outer = leader[0] + np.linspace(0.4, 1, 10)[:, None] * (leader[1] - leader[0])
        assert np.linalg.norm(outer[:, None] - points[others], axis=2).min() > 0.025


def test_a_curve_without_its_column_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    for name in SMOKE.figures["fig_rejected_fewshot"].experiments:
        write_text(layout.curve(name, 0), "step,seconds,loss\n1,1,1\n")
    with pytest.raises(UserError, match="none of rejected"):
        render_figure(SMOKE, layout, "fig_rejected_fewshot")
