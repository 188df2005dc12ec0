"""Figures of numbers: sweeps over H, convergence of the recursion, precision against recall."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from numpy.typing import NDArray

from rtm.config import Config
from rtm.config.catalogue import METRICS
from rtm.config.experiments import Recursive
from rtm.config.reports import FigureEntry
from rtm.core.errors import UserError
from rtm.core.readers import read_json
from rtm.reports.cells import Sheet
from rtm.reports.commands import missing
from rtm.reports.mathematics import plain
from rtm.reports.sheets import build
from rtm.reports.style import COLOURS, GREY, MARKERS, line_style
from rtm.reports.summary import evaluations, read_summary, unmeasured

WIDER = 1.7  # ratio of width to height of the axes in precision_recall
APART = 0.09  # distance of labels from points and from each other, in heights of the axes
Points = NDArray[np.float64]  # (number, 2)


def sweep(canvas: Canvas, config: Config, figure: FigureEntry, names: Mapping[str, str]) -> None:
    """Metrics over H at inference, mean and standard deviation; a dotted line marks the H of training."""
    panels = canvas.subplots(1, len(figure.metrics), squeeze=False)[0]
    for place, (name, label) in enumerate(names.items()):
        summary = read_summary(config, name)
        if summary is None:
            raise UserError(missing(unmeasured(config, name)[0]))
        experiment = config.experiment(name)
        steps = [H for H in experiment.sweep if isinstance(H, int)]
        if not steps:
            raise UserError(f"{name} has no sweep over H; give it one in params/.")
        sections = [summary[f"{figure.protocol}_H{H}"] for H in steps]
        for axes, metric in zip(panels, figure.metrics, strict=True):
            means = [section[metric] for section in sections]
            spreads = [section.get(f"{metric}_std", 0.0) for section in sections]
            axes.errorbar(
                steps,
                means,
                spreads,
                capsize=3,
                label=label,
                **line_style(place),
            )
            axes.set_ylabel(METRICS[metric].title)
            _over_depth(axes, experiment.mapper)
            axes.set_xticks(steps, [str(H) for H in steps])
            axes.set_xlabel("H at inference")
    if len(names) > 1:
        panels[0].legend(frameon=False)


def convergence(canvas: Canvas, config: Config, figure: FigureEntry, names: Mapping[str, str]) -> None:
    """How far each step moves the state and w: the median over the latents and the band from 10 % to 99 %, each a mean
    over the seeds. A dotted line marks the H of training."""
    first, second = canvas.subplots(1, 2)
    for place, (name, label) in enumerate(names.items()):
        curves = _refinement(config, name, str(figure.protocol))
        style = line_style(place) | {"marker": ""}
        for part, title, axes in (("z", "state $Z_H$", first), ("w", "style $w$", second)):
            low, middle, high = (_mean(curves, part, share) for share in ("p10", "median", "p99"))
            steps = np.arange(2, len(middle) + 2)
            axes.plot(steps, middle, label=label, **style)
            axes.fill_between(
                steps,
                low,
                high,
                color=style["color"],
                alpha=0.15,
                linewidth=0,
            )
            _over_depth(axes, config.experiment(name).mapper)
            axes.xaxis.set_major_formatter("{x:g}")
            axes.set_yscale("log")
            axes.set_xlabel("refinement step")
            axes.set_ylabel(f"relative change of the {title}")
    first.legend(frameon=False)


def _refinement(config: Config, name: str, protocol: str) -> list[dict[str, Any]]:
    """The curves of the recursion, from the metrics file of each seed."""
    curves = []
    for job in evaluations(config, name, protocol):
        if not job.first.exists():
            raise UserError(missing(job))
        file = read_json(job.first)
        curves.append(file.get("refinement"))
    if not all(curves):
        raise UserError(f"{name} has no recursion that was measured; measure it again, or leave it out.")
    return curves


def _mean(curves: list[dict[str, Any]], part: str, share: str) -> Points:
    mean: Points = np.mean([curve[part][share] for curve in curves], axis=0)
    return mean


def _over_depth(axes: Axes, mapper: object) -> None:
    """A logarithmic axis of steps, with a dotted line at the H of training."""
    if isinstance(mapper, Recursive):
        axes.axvline(mapper.H, color=GREY, linestyle=":", linewidth=0.8)
    axes.set_xscale("log", base=2)


def precision_recall(canvas: Canvas, config: Config, figure: FigureEntry, names: Mapping[str, str]) -> None:
    """The methods of a table; hollow grey: published, grey: measured on foreign images, colour: ours."""
    sheet = build(config, str(figure.table))
    points = _points(sheet)
    lines = [line for line in sheet.lines if line.id in points]
    if not any(line.cells[0].state == "measured" for line in lines):
        raise UserError(f"Nothing of {figure.table} is measured; make it first with `{sheet.command}`.")
    axes = canvas.add_subplot()
    colours = iter(zip(COLOURS, MARKERS, strict=True))
    for line in lines:
        style: dict[str, Any] = {"color": GREY, "marker": "o", "markersize": 5}
        if line.cells[0].state == "measured":
            colour, marker = next(colours)
            style = {"color": colour, "marker": marker, "markersize": 8}
        elif line.cells[0].state == "published":
            style["markerfacecolor"] = "none"
        axes.plot(*points[line.id], linestyle="", **style)
    axes.margins(0.14)
    axes.set_xlabel("recall")
    axes.set_ylabel("precision")
    _number(axes, np.array([points[line.id] for line in lines]))
    titles = [f"{number}  {plain(line.title)}" for number, line in enumerate(lines, 1)]
    axes.text(
        1.02,
        1.0,
        "\n".join(titles),
        transform=axes.transAxes,
        va="top",
        fontsize=7,
        linespacing=1.35,
    )


def _points(sheet: Sheet) -> dict[str, tuple[float, float]]:
    """(recall, precision) of the rows that have both."""
    points = {}
    for line in sheet.lines:
        values = {cell.part.metric: cell.value for cell in line.cells}
        recall = values.get("recall")
        precision = values.get("precision")
        if recall is not None and precision is not None:
            points[line.id] = (recall, precision)
    return points


def _number(axes: Axes, points: Points) -> None:
    """Put a number beside every marker, with a leader line."""
    height = np.maximum(np.ptp(points, axis=0), 1e-9) / (WIDER, 1.0)
    labels = height * place_labels(points / height)
    arrow = {
        "arrowstyle": "-",
        "linewidth": 0.4,
        "color": GREY,
        "shrinkA": 0,
        "shrinkB": 3,
    }
    text: dict[str, Any] = {
        "fontsize": 7,
        "ha": "center",
        "va": "center",
        "zorder": 1.5,
        "arrowprops": arrow,
    }
    for number, (label, point) in enumerate(zip(labels, points, strict=True), 1):
        axes.annotate(str(number), point, label, **text)


def place_labels(points: Points, rounds: int = 300) -> Points:
    """Positions of labels beside their points: they start outwards, and points and labels push them away."""
    outwards = points - points.mean(0)
    outwards /= np.linalg.norm(outwards, axis=1, keepdims=True) + 1e-9
    labels: Points = points + APART * outwards
    for _ in range(rounds):
        others = np.concatenate([points, labels])
        gaps = labels[:, None] - others
        distances = np.linalg.norm(gaps, axis=2, keepdims=True)
        directions = gaps / np.maximum(distances, 1e-9)
        strengths = np.maximum(APART - distances, 0)
        labels = labels + 0.2 * (directions * strengths).sum(1)
    return labels
