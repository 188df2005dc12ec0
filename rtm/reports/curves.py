"""Figures of training curves: the mean of the seeds, and a band from the lowest to the highest."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rtm.config import Config
from rtm.config.catalogue import METRICS
from rtm.config.reports import FigureEntry
from rtm.core.errors import UserError
from rtm.core.readers import read_numbers
from rtm.reports.commands import missing
from rtm.reports.style import line_style
from rtm.stages.train import Train

Rows = list[dict[str, float]]
Numbers = NDArray[np.float64]
Names = Mapping[str, str]  # labels by experiment
UNITS = {"days": 86400.0, "hours": 3600.0, "minutes": 60.0}  # in seconds


@dataclass(frozen=True)
class Curve:
    """A logged number over the steps (or rounds) that all seeds reached."""

    steps: Numbers
    seconds: Numbers  # mean over the seeds
    mean: Numbers
    low: Numbers
    high: Numbers


def over_seeds(logs: Sequence[Rows], column: str, index: str = "step") -> Curve | None:
    """The curve of a column; None if no seed has it."""
    runs = [points for rows in logs if (points := _points(rows, column, index))]
    if not runs:
        return None
    first = max(min(points) for points in runs)
    last = min(max(points) for points in runs)
    steps = np.array(sorted({step for points in runs for step in points if first <= step <= last}))
    seconds = []
    values = []
    for points in runs:
        logged = list(points)
        times, numbers = np.array(list(points.values())).T
        seconds.append(np.interp(steps, logged, times))
        values.append(np.interp(steps, logged, numbers))
    return Curve(
        steps,
        seconds=np.mean(seconds, 0),
        mean=np.mean(values, 0),
        low=np.min(values, 0),
        high=np.max(values, 0),
    )


def _points(rows: Rows, column: str, index: str) -> dict[float, tuple[float, float]]:
    """(seconds, value) by step of the rows that have them; the first row of each step counts."""
    points: dict[float, tuple[float, float]] = {}
    for row in rows:
        if {column, index, "seconds"} <= row.keys():
            points.setdefault(row[index], (row["seconds"], row[column]))
    return dict(sorted(points.items()))


def read_logs(config: Config, name: str) -> list[Rows]:
    """The curves of every seed of an experiment."""
    logs = []
    for seed in config.experiment(name).seeds:
        job = Train().job(config, experiment=name, seed=seed)
        curve = job.outputs["curve"]
        if not curve.exists():
            raise UserError(missing(job, "curve"))
        logs.append(read_numbers(curve))
    return logs


def curves(canvas: Canvas, config: Config, figure: FigureEntry, names: Names) -> None:
    """Curves of the loss, the rejected share, and the distance that a step moves w."""
    titles = {column: METRICS[column].title for column in ("loss", "rejected")}
    _training(canvas, config, names, titles | {"w_change": "change of w in a step"})


def progress(canvas: Canvas, config: Config, figure: FigureEntry, names: Names) -> None:
    """Metrics measured during training."""
    _training(canvas, config, names, {metric: METRICS[metric].title for metric in figure.metrics})


def rejected(canvas: Canvas, config: Config, figure: FigureEntry, names: Names) -> None:
    """The rejected share in each round."""
    axes = canvas.add_subplot()
    for name, curve in _drawable(config, names, ["rejected"], "rounds")["rejected"].items():
        _draw(axes, curve.steps, curve, names, name)
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    set_vertical(axes, "rejected", METRICS["rejected"].title)
    axes.legend(frameon=False)


def _drawable(config: Config, names: Names, columns: Iterable[str], index: str) -> dict[str, dict[str, Curve]]:
    """The curves that the trainings have, by column and experiment; an error if they have none."""
    logs = {name: read_logs(config, name) for name in names}
    panels: dict[str, dict[str, Curve]] = {}
    for column in columns:
        for name in names:
            if curve := over_seeds(logs[name], column, index):
                panels.setdefault(column, {})[name] = curve
    if not panels:
        raise UserError(f"The curves of {', '.join(names)} have none of {', '.join(columns)}; train them again.")
    return panels


def _training(canvas: Canvas, config: Config, names: Names, titles: Mapping[str, str]) -> None:
    """Two rows of curves with equal vertical axes. The upper x axis has the steps (or the images seen, if batches
    differ), the lower one the mean time at these steps."""
    panels = _drawable(config, names, titles, "step")
    batches = {name: config.experiment(name).recipe.training.batch for name in names}
    same = len(set(batches.values())) == 1
    drawn = [curve for panel in panels.values() for curve in panel.values()]
    unit, size = _unit(max(curve.seconds.max() for curve in drawn))
    width = canvas.get_figwidth()
    canvas.set_size_inches(width, 0.7 * width)
    grid = canvas.subplots(2, len(panels), sharey="col", squeeze=False)
    for (column, panel), (above, below) in zip(panels.items(), grid.T, strict=True):
        for name, curve in panel.items():
            images = 1 if same else batches[name]
            _draw(above, curve.steps * images, curve, names, name)
            _draw(below, curve.seconds / size, curve, names, name)
        above.set_xlabel("steps" if same else "images seen")
        below.set_xlabel(f"training time ({unit})")
        set_vertical(above, column, titles[column])
        set_vertical(below, column, titles[column])
    handles, labels = grid[0, 0].get_legend_handles_labels()
    canvas.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=4,
        frameon=False,
    )


def _unit(seconds: float) -> tuple[str, float]:
    """The largest unit of which an axis has at least 3, and its seconds."""
    for unit, size in UNITS.items():
        if seconds >= 3 * size:
            return unit, size
    return "seconds", 1.0


def _draw(axes: Axes, x: Numbers, curve: Curve, names: Names, name: str) -> None:
    """Draw the mean with its band; if there is only one point, with a marker."""
    style = line_style(list(names).index(name))
    style |= {"marker": ""} if len(x) > 1 else {"clip_on": False}
    axes.plot(
        x,
        curve.mean,
        linewidth=1.4,
        label=names[name],
        **style,
    )
    axes.fill_between(
        x,
        curve.low,
        curve.high,
        color=style["color"],
        alpha=0.15,
        linewidth=0,
    )


def set_vertical(axes: Axes, column: str, title: str) -> None:
    """The vertical axis of a metric."""
    metric = METRICS[column]
    axes.set_ylabel(title)
    if metric.share:
        axes.set_ylim(bottom=0)
    if not metric.logarithmic or min(np.min(line.get_ydata()) for line in axes.lines) <= 0:
        return
    axes.set_yscale("log", subs=(2, 5))
    axes.yaxis.set_major_formatter("{x:g}")
    low, high = axes.get_ylim()
    axes.yaxis.set_minor_formatter("{x:g}" if high < 100 * low else "")  # with many decades, no minor labels
