"""Small training curves for the page: lines in a box of fixed size, with a few round ticks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rtm.core.files import read_numbers
from rtm.pipeline.runs import log_rows

WIDTH, HEIGHT = 260, 130  # of the box around the lines
POINTS = 120  # of a line
COLUMNS = {
    "loss": "loss",
    "rejected": "rejected share",
    "fid": "FID",
    "precision": "precision",
    "recall": "recall",
}
LOGARITHMIC = ("loss", "fid")
Rows = list[dict[str, float]]
Points = list[tuple[float, float]]


@dataclass(frozen=True)
class Tick:
    place: float
    text: str


@dataclass(frozen=True)
class Panel:
    title: str
    lines: tuple[str, ...]  # SVG path data, one for each seed
    x: tuple[Tick, ...]
    y: tuple[Tick, ...]
    last: str  # the last value of each line


def read_curve(curve: Path, log: Path | None) -> Rows:
    """The curve of a finished training, or the log of a running one."""
    if curve.exists():
        return read_numbers(curve)
    return [] if log is None else log_rows(log)


def panels(runs: Sequence[Rows], total: int, compared: Sequence[Rows] = ()) -> list[Panel]:
    """One panel over the steps for each logged number. The axes also have room for the curves of `compared`."""
    drawn = []
    for column, title in COLUMNS.items():
        lines = [[(row["step"], row[column]) for row in rows if column in row] for rows in runs]
        present = [_thinned(line) for line in lines if line]
        if present:
            values = [row[column] for rows in (*runs, *compared) for row in rows if column in row]
            drawn.append(_panel(title, present, total, values, column in LOGARITHMIC))
    return drawn


def _panel(title: str, lines: list[Points], total: int, values: list[float], logarithmic: bool) -> Panel:
    logarithmic = logarithmic and min(values) > 0

    def scaled(value: float) -> float:
        return math.log10(value) if logarithmic else value

    ticks = _decades(min(values), max(values)) if logarithmic else _round_numbers(min(values), max(values))
    low = min(scaled(min(values)), scaled(ticks[0]))
    size = max(scaled(max(values)), scaled(ticks[-1])) - low or 1.0

    def place(y: float) -> float:
        return round(HEIGHT * (1 - (scaled(y) - low) / size), 1)

    def across(step: float) -> float:
        return round(WIDTH * step / total, 1)

    return Panel(
        title,
        tuple("M" + "L".join(f"{across(x):g},{place(y):g}" for x, y in line) for line in lines),
        tuple(Tick(across(step), f"{step:,.0f}") for step in (0, total)),
        tuple(Tick(place(tick), f"{tick:g}") for tick in ticks),
        ", ".join(f"{line[-1][1]:.3g}" for line in lines),
    )


def _thinned(line: Points) -> Points:
    step = max(1, math.ceil(len(line) / POINTS))
    return line if step == 1 else [*line[:-1:step], line[-1]]


def _round_numbers(low: float, high: float, number: int = 3) -> list[float]:
    """A few multiples of 1, 2 or 5 times a power of ten that enclose the values."""
    span = (high - low) or abs(high) or 1.0
    power = 10.0 ** math.floor(math.log10(span / number))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= number)
    first = math.floor(low / step)
    last = max(first + 1, math.ceil(high / step))
    return [round(step * index, 12) for index in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten that enclose the values, with 2 and 5 between them if there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in (1, 2, 5)]
    below = max(tick for tick in ticks if tick <= low)
    above = min((tick for tick in ticks if tick >= high), default=10.0 ** (last + 1))
    inside = [tick for tick in ticks if below <= tick <= above]
    if len(inside) > 5:
        inside = [tick for tick in inside if tick in (below, above) or math.log10(tick).is_integer()]
    return inside if len(inside) > 1 else [low, high]
