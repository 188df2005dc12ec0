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
from rtm.core.files import read_numbers
from rtm.core.layout import Layout
from rtm.reports.cells import TITLES, Line, build, read_summary
from rtm.reports.commands import command
from rtm.reports.mathematics import plain

# Okabe and Ito's colours for colour-blind readers; line styles and markers differ as well
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#777777"
SHARES = ("rejected", "precision", "recall")
WIDER = 1.7  # ratio of width to height of the axes in precision_recall
DIRECTIONS = 24  # in which a label may lie from its point
Points = NDArray[np.float64]  # (number, 2)


def curves(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """Loss and rejected share over time; bold: mean over the seeds, thin: each seed."""
    _training(canvas, config, layout, names, "seconds", {"loss": "loss", "rejected": "rejected share of the pool"})


def progress(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """Metrics measured during training, over time."""
    _training(canvas, config, layout, names, "seconds", {metric: TITLES[metric] for metric in figure.metrics})


def rejected(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    _training(canvas, config, layout, names, "rounds", {"rejected": "rejected share of the pool"})


def sweep(canvas: Canvas, config: Config, layout: Layout, figure: Figure, names: Mapping[str, str]) -> None:
    """Metrics over H at inference, mean and standard deviation; a dotted line marks the H of training."""
    panels = _panels(canvas, len(figure.metrics))
    for place, (name, label) in enumerate(names.items()):
        experiment = config.experiment(name)
        summary = read_summary(config, layout, name)
        if summary is None:
            made = command(config, layout.summary(name), [name])
            raise UserError(f"{layout.summary(name)} does not exist; make it first with `{made}`.")
        if not experiment.sweep:
            raise UserError(f"{name} has no sweep over H; give it one in params/.")
        for axes, metric in zip(panels, figure.metrics, strict=True):
            sections = [summary[f"{figure.protocol}_H{H}"] for H in experiment.sweep]
            means = [section[metric] for section in sections]
            spread = [section.get(f"{metric}_std", 0.0) for section in sections]
            axes.errorbar(experiment.sweep, means, spread, capsize=3, label=label, **_style(place))
            if isinstance(experiment.mapper, Recursive):
                axes.axvline(experiment.mapper.H, color=GREY, linestyle=":", linewidth=0.8)
            axes.set_xscale("log", base=2)
            axes.set_xticks(experiment.sweep, [str(H) for H in experiment.sweep])
            axes.set_xlabel("H at inference")
            axes.set_ylabel(TITLES[metric])
    if len(names) > 1:
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
    canvas: Canvas, config: Config, layout: Layout, names: Mapping[str, str], x: str, columns: Mapping[str, str]
) -> None:
    logs = {name: _logs(config, layout, config.experiment(name)) for name in names}
    shown = [column for column in columns if any(column in log and log[column].notna().any() for log in _flat(logs))]
    if not shown:
        raise UserError(f"The curves of {', '.join(names)} have none of {', '.join(columns)}; train them again.")
    unit, divisor = _time_unit(max(log[x].max() for log in _flat(logs))) if x == "seconds" else ("round", 1.0)
    for axes, column in zip(_panels(canvas, len(shown)), shown, strict=True):
        for place, (name, label) in enumerate(names.items()):
            present = [log[[x, column]].dropna().drop_duplicates(x) for log in logs[name] if column in log]
            _seeds(axes, [log for log in present if len(log)], x, divisor, place, label)
        axes.set_xlabel(unit)
        axes.set_ylabel(columns[column])
        if x == "rounds":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if column in SHARES:
            axes.set_ylim(bottom=0)
        if column == "loss":
            axes.set_yscale("log", subs=(2, 5))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_formatter("{x:g}")
    handles = canvas.axes[0].get_legend_handles_labels()
    canvas.legend(*handles, loc="outside lower center", ncols=len(names), frameon=False)


def _seeds(axes: Axes, logs: list[pd.DataFrame], x: str, divisor: float, place: int, label: str) -> None:
    """Thin lines for the seeds and their mean on a common grid of x; a marker if the grid is one point."""
    if not logs:
        return
    runs = [(log[x].to_numpy(float) / divisor, log.iloc[:, 1].to_numpy(float)) for log in logs]
    if len(runs) > 1:
        for xs, ys in runs:
            axes.plot(xs, ys, color=COLOURS[place % len(COLOURS)], linewidth=0.5, alpha=0.4)
    first, last = max(xs[0] for xs, _ in runs), min(xs[-1] for xs, _ in runs)
    style: dict[str, Any] = _style(place) | ({"marker": ""} if last > first else {"clip_on": False})
    grid = np.linspace(first, last, 200 if last > first else 1)
    mean = np.mean([np.interp(grid, xs, ys) for xs, ys in runs], axis=0)
    axes.plot(grid, mean, linewidth=1.6, label=label, **style)


def _logs(config: Config, layout: Layout, experiment: Experiment) -> list[pd.DataFrame]:
    paths = [layout.curve(experiment.name, seed) for seed in experiment.seeds]
    for path in paths:
        if not path.exists():
            made = command(config, path, [experiment.name])
            raise UserError(f"{path} does not exist; make it first with `{made}`.")
    return [pd.DataFrame(read_numbers(path)) for path in paths]


def _flat(logs: Mapping[str, list[pd.DataFrame]]) -> list[pd.DataFrame]:
    return [log for several in logs.values() for log in several]


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
    """Positions of labels such that labels and leaders do not meet others; the height of the axes is 1."""
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
