"""Figures of numbers: training curves, sweeps over H, precision against recall."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rtm.config import Config, Experiment
from rtm.config.experiments import Recursive
from rtm.config.reports import Figure
from rtm.core.errors import UserError
from rtm.core.files import read_json, read_numbers
from rtm.core.layout import Layout
from rtm.reports.cells import TITLES, Line, build, read_summary
from rtm.reports.commands import command
from rtm.reports.mathematics import plain

# Okabe and Ito's colours for colour-blind readers; line styles and markers differ as well
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#777777"
SHARES = ("rejected", "precision", "recall")  # their axes begin at 0
LOGARITHMIC = ("loss", "fid", "w_change")
WIDER = 1.7  # ratio of width to height of the axes in precision_recall
DIRECTIONS = 24  # number of directions from a point in which its label may lie
Points = NDArray[np.float64]  # (number, 2)


def curves(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """Curves of the loss, the rejected share, and the distance that a step moves w."""
    columns = {"loss": "loss", "rejected": "rejected share of the pool", "w_change": "change of w in a step"}
    _training(canvas, config, layout, names, columns)


def progress(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """Metrics measured during training."""
    _training(canvas, config, layout, names, {metric: TITLES[metric] for metric in figure.metrics})


def rejected(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """The rejected share in each round."""
    (axes,) = _panels(canvas, 1)
    logs = {name: _logs(config, layout, config.experiment(name)) for name in names}
    for place, (name, label) in enumerate(names.items()):
        if (seen := over_seeds(logs[name], "rejected", "rounds")) is not None:
            _line(axes, seen.index.to_numpy(float), seen, place, label)
    if not axes.lines:
        raise UserError(f"The curves of {', '.join(names)} have none of rejected; train them again.")
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    _vertical(axes, "rejected", "rejected share of the pool")
    axes.legend(frameon=False)


def sweep(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """Metrics over H at inference, mean and standard deviation; a dotted line marks the H of training."""
    panels = _panels(canvas, len(figure.metrics))
    for place, (name, label) in enumerate(names.items()):
        experiment = config.experiment(name)
        summary = read_summary(config, layout, name)
        if summary is None:
            made = command(config, layout.summary(name), [name])
            raise UserError(f"{layout.summary(name)} does not exist; make it first with `{made}`.")
        steps = [H for H in experiment.sweep if isinstance(H, int)]
        if not steps:
            raise UserError(f"{name} has no sweep over H; give it one in params/.")
        for axes, metric in zip(panels, figure.metrics, strict=True):
            sections = [summary[f"{figure.protocol}_H{H}"] for H in steps]
            means = [section[metric] for section in sections]
            spread = [section.get(f"{metric}_std", 0.0) for section in sections]
            axes.errorbar(steps, means, spread, capsize=3, label=label, **_style(place))
            if isinstance(experiment.mapper, Recursive):
                axes.axvline(experiment.mapper.H, color=GREY, linestyle=":", linewidth=0.8)
            axes.set_xscale("log", base=2)
            axes.set_xticks(steps, [str(H) for H in steps])
            axes.set_xlabel("H at inference")
            axes.set_ylabel(TITLES[metric])
    if len(names) > 1:
        panels[0].legend(frameon=False)


def convergence(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """How far each step moves the state and w: the median over the latents and the band from 10 % to 99 %, each a mean
    over the seeds. A dotted line marks the H of training."""
    panels = _panels(canvas, 2)
    for place, (name, label) in enumerate(names.items()):
        experiment = config.experiment(name)
        files = [layout.metrics(name, str(figure.protocol), seed) for seed in experiment.seeds]
        for path in files:
            if not path.exists():
                raise UserError(f"{path} does not exist; make it first with `{command(config, path, [name])}`.")
        curves = [read_json(path).get("refinement") for path in files]
        if not isinstance(experiment.mapper, Recursive) or not all(curves):
            raise UserError(f"{name} has no recursion that was measured; measure it again, or leave it out.")
        for axes, part, title in zip(panels, ("z", "w"), ("state $Z_H$", "style $w$"), strict=True):
            low, middle, high = (
                np.mean([curve[part][share] for curve in curves], axis=0) for share in ("p10", "median", "p99")
            )
            steps = np.arange(2, len(middle) + 2)
            axes.plot(steps, middle, label=label, **_style(place) | {"marker": ""})
            axes.fill_between(steps, low, high, color=COLOURS[place % len(COLOURS)], alpha=0.15, linewidth=0)
            axes.axvline(experiment.mapper.H, color=GREY, linestyle=":", linewidth=0.8)
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_yscale("log")
            axes.set_xlabel("refinement step")
            axes.set_ylabel(f"relative change of the {title}")
    panels[0].legend(frameon=False)


def precision_recall(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """The methods of a table; hollow grey: published, grey: measured on foreign images, colour: ours."""
    sheet = build(config, layout, str(figure.table))
    found = [(line, point) for line in sheet.lines if (point := _point(line)) is not None]
    if not any(line.cells[0].state == "measured" for line, _ in found):
        made = command(config, layout.table(sheet.name), figure.experiments)
        raise UserError(f"Nothing of {figure.table} is measured; make it first with `{made}`.")
    axes = canvas.add_subplot()
    measured = 0
    for line, (recall, precision) in found:
        if ours := line.cells[0].state == "measured":
            style: dict[str, Any] = {"color": COLOURS[measured], "marker": MARKERS[measured], "markersize": 8}
        else:
            published = line.cells[0].state != "evaluated"
            style = {"color": GREY, "marker": "o", "markersize": 5, "markerfacecolor": "none" if published else GREY}
        measured += ours
        axes.plot(recall, precision, linestyle="", **style)
    axes.margins(0.08)
    axes.set_xlabel("recall")
    axes.set_ylabel("precision")
    _numbered(axes, np.array([point for _, point in found]), [line.get_markersize() for line in axes.lines])
    rows = [f"{number}  {plain(line.title)}" for number, (line, _) in enumerate(found, 1)]
    axes.text(1.02, 1.0, "\n".join(rows), transform=axes.transAxes, va="top", fontsize=7, linespacing=1.35)


def _training(
    canvas: Canvas, config: Config, layout: Layout, names: Mapping[str, str], columns: Mapping[str, str]
) -> None:
    """Two rows of curves with equal vertical axes. The upper x axis has the steps (or the images seen, if batches
    differ), the lower one the mean time at these steps. A line is the mean of the seeds at each step, its band their
    range."""
    experiments = {name: config.experiment(name) for name in names}
    logs = {name: _logs(config, layout, experiment) for name, experiment in experiments.items()}
    found = {column: {name: over_seeds(each, column) for name, each in logs.items()} for column in columns}
    shown = [column for column in columns if any(seen is not None for seen in found[column].values())]
    if not shown:
        raise UserError(f"The curves of {', '.join(names)} have none of {', '.join(columns)}; train them again.")
    batches = {name: experiment.recipe.training.batch for name, experiment in experiments.items()}
    same = len(set(batches.values())) == 1
    times = [seen["seconds"].max() for column in shown for seen in found[column].values() if seen is not None]
    time, divisor = _time_unit(max(times))
    canvas.set_size_inches(canvas.get_figwidth(), 0.7 * canvas.get_figwidth())
    grid = canvas.subplots(2, len(shown), sharey="col", squeeze=False)
    for column, (above, below) in zip(shown, grid.T, strict=True):
        for place, (name, label) in enumerate(names.items()):
            if (seen := found[column][name]) is not None:
                steps = seen.index.to_numpy(float)
                _line(above, steps if same else steps * batches[name], seen, place, label)
                _line(below, seen["seconds"].to_numpy(float) / divisor, seen, place, label)
        above.set_xlabel("steps" if same else "images seen")
        below.set_xlabel(time)
        for axes in (above, below):
            _vertical(axes, column, columns[column])
    canvas.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)


def over_seeds(logs: Sequence[pd.DataFrame], column: str, index: str = "step") -> pd.DataFrame | None:
    """Mean, lowest and highest value over the seeds, and their mean time, at every step that all seeds reached."""
    kept = [log[[index, "seconds", column]].dropna() for log in logs if column in log]
    runs = [log.drop_duplicates(index).set_index(index) for log in kept if len(log)]
    if not runs:
        return None
    values, seconds = (
        pd.concat([run[name] for run in runs], axis=1).sort_index().interpolate("index", limit_area="inside")
        for name in (column, "seconds")
    )
    whole = values.dropna()
    means = {"mean": whole.mean(axis=1), "low": whole.min(axis=1), "high": whole.max(axis=1)}
    return pd.DataFrame(means | {"seconds": seconds.loc[whole.index].mean(axis=1)})


def _line(axes: Axes, x: NDArray[np.float64], seen: pd.DataFrame, place: int, label: str) -> None:
    """Draw the mean with its band; if there is only one point, with a marker."""
    style: dict[str, Any] = _style(place) | ({"marker": ""} if len(x) > 1 else {"clip_on": False})
    axes.plot(x, seen["mean"].to_numpy(float), linewidth=1.4, label=label, **style)
    axes.fill_between(x, seen["low"], seen["high"], color=style["color"], alpha=0.15, linewidth=0)


def _vertical(axes: Axes, column: str, title: str) -> None:
    axes.set_ylabel(title)
    if column in SHARES:
        axes.set_ylim(bottom=0)
    if column in LOGARITHMIC:
        axes.set_yscale("log", subs=(2, 5))
        axes.yaxis.set_major_formatter("{x:g}")
        low, high = axes.get_ylim()
        axes.yaxis.set_minor_formatter("{x:g}" if high < 100 * low else "")  # with many decades, no minor labels


def _logs(config: Config, layout: Layout, experiment: Experiment) -> list[pd.DataFrame]:
    paths = [layout.curve(experiment.name, seed) for seed in experiment.seeds]
    for path in paths:
        if not path.exists():
            made = command(config, path, [experiment.name])
            raise UserError(f"{path} does not exist; make it first with `{made}`.")
    return [pd.DataFrame(read_numbers(path)) for path in paths]


def _time_unit(seconds: float) -> tuple[str, float]:
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 3 * size:
            return f"training time ({unit})", size
    return "training time (seconds)", 1.0


def _panels(canvas: Canvas, number: int) -> list[Axes]:
    return [canvas.add_subplot(1, number, place) for place in range(1, number + 1)]


def _style(place: int) -> dict[str, Any]:
    index = place % len(COLOURS)
    return {"color": COLOURS[index], "linestyle": LINES[index], "marker": MARKERS[index], "markersize": 5}


def _point(line: Line) -> tuple[float, float] | None:
    """(recall, precision) of a row, if it has both."""
    values = {cell.part.metric: cell.value for cell in line.cells}
    recall, precision = values.get("recall"), values.get("precision")
    return None if recall is None or precision is None else (recall, precision)


def _numbered(axes: Axes, points: Points, sizes: Sequence[float]) -> None:
    """Put a number beside every marker, with a leader line to the marker's edge."""
    low, size = points.min(0), np.maximum(np.ptp(points, axis=0), 1e-9) / (WIDER, 1.0)
    labels = low + place_labels((points - low) / size) * size
    for number, (label, point, marker) in enumerate(zip(labels, points, sizes, strict=True), 1):
        arrow = {"arrowstyle": "-", "linewidth": 0.4, "color": GREY, "shrinkA": 0, "shrinkB": marker / 2}
        axes.annotate(str(number), point, label, fontsize=7, ha="center", va="center", zorder=1.5, arrowprops=arrow)


def place_labels(points: Points, starts: int = 4, rounds: int = 10) -> Points:
    """Positions of labels, chosen so that labels and leader lines do not overlap. The height of the axes is 1."""
    angles = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    around = np.stack([np.cos(angles), np.sin(angles)], 1)
    offsets = np.concatenate([radius * around for radius in (0.08, 0.11, 0.14, 0.18)])
    outwards = np.argmax((points - points.mean(0)) @ around.T, axis=1)
    found: list[tuple[float, int, Points]] = []
    for start in range(starts):
        chosen, costs = (outwards + DIRECTIONS // starts * start) % DIRECTIONS, np.zeros(len(points))
        for _ in range(rounds):
            before = chosen.copy()
            for own in range(len(points)):
                crowding = _crowding(points, points + offsets[chosen], own, points[own] + offsets)
                chosen[own], costs[own] = crowding.argmin(), crowding.min()
            if np.array_equal(chosen, before):
                break
        found.append((float(costs.sum()), start, points + offsets[chosen]))
    return min(found)[2]


def _crowding(points: Points, labels: Points, own: int, candidates: Points) -> NDArray[np.float64]:
    """The cost of each candidate: nearness to other points, leaders and labels, and distance from its point."""
    along = np.linspace(0.2, 1.0, 8)[:, None]
    others, theirs = np.delete(points, own, 0), np.delete(labels, own, 0)
    leaders = others[:, None] + along * (theirs - others)[:, None]
    leader = points[own] + along * (candidates[:, None] - points[own])  # (candidates, places, 2)
    met = _nearness(leader, leaders.reshape(-1, 2), 0.045).sum(1) + 3 * _nearness(leader, others, 0.04).sum(1)
    met += 3 * _nearness(candidates, np.concatenate([others, theirs]), 0.085)
    outside = np.maximum(np.maximum(-candidates, candidates - (WIDER, 1.0)) - 0.05, 0).sum(1)
    cost: NDArray[np.float64] = met + 5 * outside + 0.5 * np.linalg.norm(candidates - points[own], axis=1)
    return cost


def _nearness(places: Points, others: Points, within: float) -> NDArray[np.float64]:
    distance = np.linalg.norm(places[..., None, :] - others, axis=-1)
    nearness: NDArray[np.float64] = np.maximum(within - distance, 0).sum(-1)
    return nearness
