"""One sentence of result: the row of a table that is ours against its baseline, seed by seed, with an interval."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rtm.config import Config
from rtm.config.reports import COST_METRICS
from rtm.core.layout import Layout
from rtm.reports.cells import Cell, Line, Sheet, format_number
from rtm.reports.summary import seed_metrics

FIRST = "fid"  # the metric of the sentence, if the table has it; otherwise its first column that is compared
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Result:
    """Ours minus the baseline's; `low` and `high` are NaN with one seed, which has no interval."""

    text: str  # plain; $...$ is mathematics
    difference: float
    low: float
    high: float
    seeds: int


def results(config: Config, layout: Layout, sheet: Sheet) -> list[Result]:
    """For each row that is ours: against the first other row with the same recipe, images and seeds."""
    columns = sorted(range(len(sheet.table.columns)), key=lambda at: sheet.table.columns[at].metric != FIRST)
    found = []
    for ours in (line for line in sheet.lines if line.ours):
        pairs = (
            (line, at) for at in columns for line in sheet.lines if _comparable(config, ours.cells[at], line.cells[at])
        )
        if pair := next(pairs, None):
            found.append(_compared(config, layout, sheet, ours, *pair))
    return found


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Of the mean of paired differences, by Student's t: right if they are normal, whatever their variance."""
    if len(differences) < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit

    middle, freedom = fmean(differences), len(differences) - 1
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * stdev(differences) / math.sqrt(len(differences))
    return middle - half, middle + half


def _comparable(config: Config, ours: Cell, other: Cell) -> bool:
    """Whether both are measured, of trainings that differ in the mapper only; times and sizes have no seeds."""
    names = [cell.part.experiment for cell in (ours, other) if cell.state == "measured" and cell.part.experiment]
    if len(names) < 2 or names[0] == names[1] or ours.part.section != other.part.section:
        return False
    if not ours.part.better or ours.part.metric in COST_METRICS:
        return False
    one, two = (config.experiment(str(name)) for name in names)
    same = one.recipe == two.recipe and one.dataset_name == two.dataset_name
    return same and bool(set(one.seeds) & set(two.seeds))


def _compared(config: Config, layout: Layout, sheet: Sheet, ours: Line, base: Line, at: int) -> Result:
    column, cells = sheet.table.columns[at], [ours.cells[at], base.cells[at]]
    named = [config.experiment(str(cell.part.experiment)) for cell in cells]
    seeds = [seed for seed in named[0].seeds if seed in named[1].seeds]
    part = cells[0].part
    variant = part.variant or "native"

    def values(name: str) -> list[float]:
        files = [seed_metrics(layout, name, str(part.protocol), seed) for seed in seeds]
        return [file["metrics"][variant][str(part.metric)] for file in files]

    mine, theirs = (values(each.name) for each in named)
    differences = [a - b for a, b in zip(mine, theirs, strict=True)]
    middle, (low, high) = fmean(differences), interval(differences)

    def shown(value: float, signed: bool = True) -> str:
        sign = ("−" if value < 0 else "+") if signed else ""
        return sign + format_number(abs(value), column, sheet.table)

    means = [shown(fmean(each), signed=False) for each in (mine, theirs)]
    metric = column.title.replace("\n", " ")
    text = (
        f"On {named[0].dataset.title}, {ours.title} has {metric} {means[0]} and {base.title} {means[1]}: "
        f"a difference of {shown(middle)}"
    )
    if len(seeds) < 2:
        return Result(f"{text}. One seed gives no interval.", middle, low, high, 1)
    better = "better" if (middle < 0) == (part.better == "lower") else "worse"
    verdict = "these seeds do not decide" if low <= 0 <= high else f"{ours.title} is {better}"
    by = f"95 % interval {shown(low)} to {shown(high)}, Student's t over {len(seeds)} paired seeds"
    return Result(f"{text} ({by}), so {verdict}.", middle, low, high, len(seeds))
