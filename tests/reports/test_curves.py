"""Training curves show the mean and the range of the seeds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas
from support.reports import DEMO, SMOKE, figure

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.reports import curves
from rtm.reports.figures import render_figure
from rtm.stages.train import Train

PROGRESS = DEMO.figures["fig_digits_progress"]


def test_curves_show_the_mean_and_the_range_of_the_seeds(demo: Config) -> None:
    canvas = Canvas()
    curves.curves(canvas, demo, DEMO.figures["fig_digits_curves"], {"digits_rtm": "RTM"})
    loss, share, loss_in_time, _ = canvas.axes
    (line,) = loss.lines
    (band,) = loss.collections
    assert np.asarray(line.get_xydata())[-1] == pytest.approx([100, 2 / 10 + 0.01])  # the seeds add 0, 0.01 and 0.02
    border = np.asarray(band.get_paths()[0].vertices)
    last = border[border[:, 0] == 100, 1]
    assert (last.min(), last.max()) == pytest.approx((0.2, 0.22))
    assert (loss.get_xlabel(), share.get_ylabel()) == ("steps", "rejected share of the pool")
    assert np.asarray(loss_in_time.lines[0].get_xdata())[-1] == pytest.approx(30)
    assert loss_in_time.get_ylim() == loss.get_ylim()


def test_steps_that_a_seed_did_not_log_lie_between_those_that_it_did() -> None:
    one = [{"step": step, "seconds": step, "loss": step} for step in (1.0, 3.0, 5.0)]
    two = [{"step": step, "seconds": 2 * step, "loss": 0.0} for step in (2.0, 3.0, 9.0)]
    curve = curves.over_seeds([one, two, []], "loss")
    assert curve is not None
    numbers = {name: values.tolist() for name, values in vars(curve).items()}
    assert numbers == {
        "steps": [2, 3, 5],
        "seconds": [3, 4.5, 7.5],
        "mean": [1, 1.5, 2.5],
        "low": [0, 0, 0],
        "high": [2, 3, 5],
    }
    assert curves.over_seeds([one], "fid") is None


def test_mappers_share_a_panel_and_batches_that_differ_an_axis_of_images(demo: Config) -> None:
    names = {"digits_mlp8": "MLP", "digits_rtm": "RTM"}
    canvas = Canvas()
    curves.progress(canvas, demo, PROGRESS, names)
    assert [axes.get_ylabel() for axes in canvas.axes] == ["FID", "precision", "recall"] * 2
    assert all(len(axes.lines) == 2 for axes in canvas.axes)
    fid = np.asarray(canvas.axes[0].lines[0].get_xydata())
    assert fid == pytest.approx(np.array([[25, 4], [50, 2], [75, 4 / 3], [100, 1]]), abs=1e-3)
    rtm = demo.experiment("digits_rtm")
    batch = rtm.recipe.training.batch * 2
    training = rtm.recipe.training.model_copy(update={"batch": batch})
    changed = replace(rtm, recipe=rtm.recipe.model_copy(update={"training": training}))
    other = replace(demo, experiments={**demo.experiments, "digits_rtm": changed})
    canvas = Canvas()
    curves.progress(canvas, other, PROGRESS, names)
    axes = canvas.axes[0]
    first, second = (np.asarray(line.get_xdata())[-1] for line in axes.lines)
    assert axes.get_xlabel() == "images seen"
    assert second == 2 * first == 100 * batch


def test_the_rejected_share_goes_by_rounds_also_if_there_is_only_one(tmp_path: Path) -> None:
    config = SMOKE.at(tmp_path)
    names = config.figures["fig_rejected_fewshot"].experiments
    for share, name in enumerate(names):
        curve = Train().path(config, "curve", experiment=name, seed=0)
        write_text(curve, f"step,seconds,rounds,rejected\n1,1,7,0.{share}\n2,2,7,\n")
    canvas = Canvas()
    curves.rejected(canvas, config, figure("rejected"), {name: name for name in names})
    (axes,) = canvas.axes
    points = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    assert points == [[[7, share / 10]] for share in range(len(names))]
    assert len({line.get_marker() for line in axes.lines} - {"", "None"}) == len(names)
    assert axes.get_ylim()[0] == 0
    assert axes.get_xlabel() == "round"
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_a_curve_without_its_column_is_refused(tmp_path: Path) -> None:
    config = SMOKE.at(tmp_path)
    for name in config.figures["fig_rejected_fewshot"].experiments:
        write_text(Train().path(config, "curve", experiment=name, seed=0), "step,seconds,loss\n1,1,1\n")
    with pytest.raises(UserError, match="none of rejected"):
        render_figure(config, "fig_rejected_fewshot")
