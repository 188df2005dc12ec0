"""Training curves for the page: the trainings of one recipe and dataset in one picture, each seed a line."""

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure as Canvas

from rtm.config.catalogue import METRICS
from rtm.core.readers import read_numbers
from rtm.reports.curves import Rows, set_vertical
from rtm.reports.style import STYLE, line_style
from rtm.training.folder import log_rows

COLUMNS = ("loss", "rejected", "fid", "precision", "recall")
SIZE = (3.0, 2.8)  # inches
POINTS = 200  # of a line, at most


def read_curve(curve: Path, log: Path | None) -> Rows:
    """The curve of a finished training, or the log of a running one."""
    if curve.exists():
        return read_numbers(curve)
    return [] if log is None else log_rows(log)


def panels(trainings: Mapping[str, Sequence[Rows]], total: int) -> dict[str, str]:
    """One picture over the steps for each logged number, by its title: a data: address of an SVG.

    `trainings` has the rows of each seed by experiment."""
    rows = [row for seeds in trainings.values() for rows in seeds for row in rows]
    columns = [column for column in COLUMNS if any(column in row for row in rows)]
    return {METRICS[column].title: _panel(trainings, column, total) for column in columns}


def _panel(trainings: Mapping[str, Sequence[Rows]], column: str, total: int) -> str:
    with matplotlib.rc_context({**STYLE, "svg.hashsalt": "rtm"}):
        canvas = Canvas(figsize=SIZE, layout="constrained")
        axes = canvas.add_subplot()
        for number, (name, seeds) in enumerate(trainings.items()):
            style = line_style(number)
            for rows in seeds:
                points = _thinned([(row["step"], row[column]) for row in rows if column in row])
                if points:
                    steps, values = zip(*points, strict=True)
                    marker = {"marker": ""} if len(points) > 1 else {}
                    axes.plot(steps, values, label=name, linewidth=1, **style | marker)
        axes.set_xlim(0, total)
        axes.set_xlabel("steps")
        set_vertical(axes, column, "")
        axes.set_title(METRICS[column].title, fontsize=8, loc="left")
        if len(trainings) > 1:
            lines = {str(line.get_label()): line for line in axes.lines}
            canvas.legend(list(lines.values()), list(lines), loc="outside lower left", fontsize=6, frameon=False)
        file = io.BytesIO()
        canvas.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return address("image/svg+xml", file.getvalue())


def address(kind: str, content: bytes) -> str:
    """A data: address, with which a page holds a picture itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Fewer points, with the first and the last."""
    step = len(points) // POINTS + 1
    return points[:-1:step] + points[-1:]
