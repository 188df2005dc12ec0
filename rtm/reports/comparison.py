"""Compare our rows with their baselines, seed by seed, with intervals."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from rtm.config import Config
from rtm.config.catalogue import is_cost
from rtm.config.reports import CellSpec
from rtm.reports.cells import Cell, Line, Sheet
from rtm.reports.mathematics import plain
from rtm.reports.summary import measuring_jobs, seed_metrics

FIRST = "fid"  # the metric of the sentence; if the table does not have it, its first column with marks
CONFIDENCE = 0.95


def comparisons(sheet: Sheet) -> list[str]:
    """One sentence for each of our rows: a comparison with the first other row with equal recipe, images and seeds."""
    sentences = []
    for ours in _ours(sheet):
        pairs = [pair for base in sheet.lines for pair in _pairs(sheet, ours, base)]
        order = [cell.column for cell in ours.cells]
        pairs.sort(key=lambda pair: (pair.cell.part.metric != FIRST, order.index(pair.cell.column)))
        sentences += [_sentence(pair) for pair in pairs[:1]]
    return sentences


def differences(sheet: Sheet) -> Iterator[str]:
    """A sentence for each pair of rows that share at least two seeds: the differences of all columns."""
    for ours in _ours(sheet):
        for base in sheet.lines:
            pairs = _pairs(sheet, ours, base)
            seeds = len(pairs[0].gaps) if pairs else 0
            if seeds > 1:
                rows = f"{plain(ours.title)} minus {plain(base.title)}"
                by = f"mean and 95 % interval by Student's t over {seeds} paired seeds"
                shown = "; ".join(f"{pair.metric} {pair.difference}" for pair in pairs)
                yield f"{rows}, {by}: {shown}."


def _ours(sheet: Sheet) -> list[Line]:
    return [line for line in sheet.lines if line.ours]


def interval(gaps: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the mean of paired differences, by Student's t. It is exact for normal differences of any
    variance."""
    if len(gaps) < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit

    middle = fmean(gaps)
    quantile = float(stdtrit(len(gaps) - 1, (1 + CONFIDENCE) / 2))
    half = quantile * stdev(gaps) / math.sqrt(len(gaps))
    return middle - half, middle + half


@dataclass(frozen=True)
class Pair:
    """One column of two rows, seed by seed."""

    ours: Line
    base: Line
    cell: Cell  # ours
    dataset: str
    values: list[tuple[float, float]]  # ours and the baseline's, of each seed

    @property
    def metric(self) -> str:
        return self.cell.heading.title.replace("\n", " ")

    @property
    def gaps(self) -> list[float]:
        return [mine - theirs for mine, theirs in self.values]

    @property
    def difference(self) -> str:
        low, high = map(self.signed, interval(self.gaps))
        return f"{self.mean} ({low} to {high})"

    @property
    def mean(self) -> str:
        return self.signed(fmean(self.gaps))

    def signed(self, number: float) -> str:
        sign = "−" if number < 0 else "+"
        return sign + self.cell.write(abs(number))


def _pairs(sheet: Sheet, ours: Line, base: Line) -> list[Pair]:
    """The columns that both rows measured, if their trainings differ only in the mapper."""
    pairs = []
    for cell, other in zip(ours.cells, base.cells, strict=True):
        if not _comparable(cell, other):
            continue
        one = sheet.config.experiment(str(cell.part.experiment))
        two = sheet.config.experiment(str(other.part.experiment))
        if one.recipe != two.recipe or one.dataset_name != two.dataset_name:
            continue
        mine = _values(sheet.config, cell.part)
        theirs = _values(sheet.config, other.part)
        both = [(mine[seed], theirs[seed]) for seed in mine if seed in theirs]
        if both:
            pairs.append(Pair(ours, base, cell, one.dataset.title, both))
    return pairs


def _comparable(mine: Cell, theirs: Cell) -> bool:
    """Whether both cells show the same measurement of two experiments. Times and sizes have no seeds."""
    if not mine.part.better or is_cost(mine.part.metric) or mine.part.section != theirs.part.section:
        return False
    are_ours = mine.state == theirs.state == "measured"
    names = {mine.part.experiment, theirs.part.experiment}
    return are_ours and None not in names and len(names) == 2


def _values(config: Config, part: CellSpec) -> dict[int, float]:
    """The value of a cell by seed."""
    variant = part.variant or "native"
    files = [seed_metrics(job) for job in measuring_jobs(config, part)]
    return {file["seed"]: file["metrics"][variant][str(part.metric)] for file in files}


def _sentence(pair: Pair) -> str:
    ours = pair.ours.title
    mine, theirs = (pair.cell.write(fmean(values)) for values in zip(*pair.values, strict=True))
    text = (
        f"On {pair.dataset}, {ours} has {pair.metric} {mine} and {pair.base.title} {theirs}: "
        f"a difference of {pair.mean}"
    )
    seeds = len(pair.gaps)
    if seeds < 2:
        return f"{text}. One seed gives no interval."
    low, high = interval(pair.gaps)
    lower_is_better = pair.cell.part.better == "lower"
    better = "better" if (low < 0) == lower_is_better else "worse"
    verdict = "these seeds do not decide" if low <= 0 <= high else f"{ours} is {better}"
    bounds = f"{pair.signed(low)} to {pair.signed(high)}"
    return f"{text} (95 % interval {bounds}, Student's t over {seeds} paired seeds), so {verdict}."
