"""Compare our rows with their baselines, seed by seed, with intervals."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rtm.config import Config
from rtm.config.reports import COST_METRICS
from rtm.core.layout import Layout
from rtm.reports.cells import Cell, Line, Sheet, format_number
from rtm.reports.mathematics import plain
from rtm.reports.summary import seed_metrics

FIRST = "fid"  # the metric of the sentence; if the table does not have it, its first column with marks
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Result:
    """Our number minus the baseline's. With one seed there is no interval, so `low` and `high` are NaN."""

    text: str  # plain; $...$ is mathematics
    difference: float
    low: float
    high: float
    seeds: int


def results(config: Config, layout: Layout, sheet: Sheet) -> list[Result]:
    """One sentence for each of our rows: a comparison with the first other row with equal recipe, images and seeds."""
    columns = sorted(range(len(sheet.table.columns)), key=lambda at: sheet.table.columns[at].metric != FIRST)
    found = []
    for ours in (line for line in sheet.lines if line.ours):
        pairs = (
            (line, at) for at in columns for line in sheet.lines if _comparable(config, ours.cells[at], line.cells[at])
        )
        if pair := next(pairs, None):
            found.append(_sentence(config, layout, sheet, ours, *pair))
    return found


def differences(config: Config, layout: Layout, sheet: Sheet) -> Iterator[str]:
    """A sentence for each pair of rows that share at least two seeds: the differences of all columns."""
    for ours in (line for line in sheet.lines if line.ours):
        for base in sheet.lines:
            cells = list(enumerate(zip(ours.cells, base.cells, strict=True)))
            columns = [at for at, pair in cells if _comparable(config, *pair)]
            pairs = [_paired(config, layout, sheet, ours, base, at) for at in columns]
            shown = [f"{pair.metric} {pair.difference}" for pair in pairs if len(pair.seeds) > 1]
            if shown:
                by = f"mean and 95 % interval by Student's t over {len(pairs[0].seeds)} paired seeds"
                yield f"{plain(ours.title)} minus {plain(base.title)}, {by}: {'; '.join(shown)}."


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of paired differences, by Student's t. It is exact for normal differences of any
    variance."""
    if len(differences) < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit

    middle, freedom = fmean(differences), len(differences) - 1
    half = float(stdtrit(freedom, (1 + CONFIDENCE) / 2)) * stdev(differences) / math.sqrt(len(differences))
    return middle - half, middle + half


def _comparable(config: Config, ours: Cell, other: Cell) -> bool:
    """Whether both cells are measured, and their trainings differ only in the mapper. Times and sizes have no seeds."""
    names = [cell.part.experiment for cell in (ours, other) if cell.state == "measured" and cell.part.experiment]
    if len(names) < 2 or names[0] == names[1] or ours.part.section != other.part.section:
        return False
    if not ours.part.better or ours.part.metric in COST_METRICS:
        return False
    one, two = (config.experiment(str(name)) for name in names)
    same = one.recipe == two.recipe and one.dataset_name == two.dataset_name
    return same and bool(set(one.seeds) & set(two.seeds))


@dataclass(frozen=True)
class _Paired:
    """One column of two rows, seed by seed."""

    metric: str
    dataset: str
    seeds: list[int]
    mine: list[float]
    theirs: list[float]
    shown: Callable[[float], str]  # formats a value as the column does

    @property
    def middle(self) -> float:
        return fmean(self.gaps)

    @property
    def gaps(self) -> list[float]:
        return [a - b for a, b in zip(self.mine, self.theirs, strict=True)]

    def signed(self, value: float) -> str:
        return ("−" if value < 0 else "+") + self.shown(abs(value))

    @property
    def difference(self) -> str:
        low, high = interval(self.gaps)
        return f"{self.signed(self.middle)} ({self.signed(low)} to {self.signed(high)})"


def _paired(config: Config, layout: Layout, sheet: Sheet, ours: Line, base: Line, at: int) -> _Paired:
    column, cells = sheet.table.columns[at], [ours.cells[at], base.cells[at]]
    named = [config.experiment(str(cell.part.experiment)) for cell in cells]
    seeds = [seed for seed in named[0].seeds if seed in named[1].seeds]
    part = cells[0].part

    def values(name: str) -> list[float]:
        files = [seed_metrics(layout, name, str(part.protocol), seed) for seed in seeds]
        return [file["metrics"][part.variant or "native"][str(part.metric)] for file in files]

    mine, theirs = (values(each.name) for each in named)
    metric = column.title.replace("\n", " ")
    return _Paired(
        metric, named[0].dataset.title, seeds, mine, theirs, lambda value: format_number(value, column, sheet.table)
    )


def _sentence(config: Config, layout: Layout, sheet: Sheet, ours: Line, base: Line, at: int) -> Result:
    pair = _paired(config, layout, sheet, ours, base, at)
    means = [pair.shown(fmean(each)) for each in (pair.mine, pair.theirs)]
    middle, (low, high) = pair.middle, interval(pair.gaps)
    text = (
        f"On {pair.dataset}, {ours.title} has {pair.metric} {means[0]} and {base.title} {means[1]}: "
        f"a difference of {pair.signed(middle)}"
    )
    if len(pair.seeds) < 2:
        return Result(f"{text}. One seed gives no interval.", middle, low, high, 1)
    better = "better" if (middle < 0) == (ours.cells[at].part.better == "lower") else "worse"
    verdict = "these seeds do not decide" if low <= 0 <= high else f"{ours.title} is {better}"
    by = f"95 % interval {pair.signed(low)} to {pair.signed(high)}, Student's t over {len(pair.seeds)} paired seeds"
    return Result(f"{text} ({by}), so {verdict}.", middle, low, high, len(pair.seeds))
