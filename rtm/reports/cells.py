"""Build the cells of a table from its definition and the results on disk: value, spread, state, mark, source files."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Literal, cast

from rtm.config import Config
from rtm.config.reports import COST_METRICS, CellSpec, Column, Metric, Published, Row, Table
from rtm.core.errors import UserError
from rtm.core.files import make_command, read_json
from rtm.core.layout import Layout
from rtm.reports.summary import Foreign, Metrics, Summary, half_widths, summarise

State = Literal["measured", "evaluated", "published", "missing", "unreported"]
Mark = Literal["best", "second"]
TITLES: Mapping[Metric, str] = {
    "fid": "FID",
    "fid_floor": "FID of real images",
    "kid": "KID",
    "is": "Inception Score",
    "precision": "precision",
    "recall": "recall",
    "density": "density",
    "coverage": "coverage",
    "sure": "samples that the classifier is surer of than 0.9",
    "steps": "refinement steps",
    "hardness": "rank correlation of steps and distance to the data",
    "z_change": "change of the state in the last step",
    "z_tail": "change of the state in the last step, 90 % of the latents",
    "w_change": "change of w in the last step",
    "flips": "classes that change from H to 2H",
    "feature_change": "feature distance between H and 2H",
    "rounding": "amplification of rounding",
    "rounding_tail": "amplification of rounding, 90 % of the latents",
    "time_ms": "time per image (ms)",
    "mapper_parameters": "parameters of the mapper",
}
UNITS: Mapping[str, float] = {"": 1.0, "k": 1e3, "M": 1e6}


@dataclass(frozen=True)
class Cell:
    part: CellSpec
    state: State
    value: float | None = None
    std: float | None = None
    text: str = "--"  # the value as shown
    spread: str = ""  # the standard deviation as shown
    sampling: float | None = None  # half the 95 % interval over the generated images, averaged over single seeds
    mark: Mark | None = None
    paper: float | None = None  # the paper's number for the same cell

    @property
    def row(self) -> str:
        return self.part.row

    @property
    def column(self) -> str:
        return self.part.column

    @property
    def measurable(self) -> bool:
        """Whether a result file gives its value; averages and published numbers have no such file."""
        return bool(self.part.experiment or self.part.foreign)

    def uncomputed(self, layout: Layout) -> bool:
        """Whether its value is missing although its experiment was measured."""
        return self.state == "missing" and self.measurable and results(layout, self.part).exists()

    @property
    def shown(self) -> float:
        """The number as a reader sees it; it decides which cells are best and second best."""
        return float(self.text.replace(",", "").rstrip("kM"))


@dataclass(frozen=True)
class Line:
    id: str
    title: str
    cells: tuple[Cell, ...]
    metric: Metric | None = None
    cite: str | None = None
    dagger: bool = False
    ours: bool = False


@dataclass(frozen=True)
class Block:
    """Rows between two rules."""

    lines: tuple[Line, ...]
    title: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Sheet:
    """A table ready to be written in any format."""

    name: str
    table: Table
    blocks: tuple[Block, ...]

    @property
    def lines(self) -> list[Line]:
        return [line for block in self.blocks for line in block.lines]

    @property
    def cells(self) -> list[Cell]:
        return [cell for line in self.lines for cell in line.cells]

    def averaged(self, mean: Cell) -> list[Cell]:
        """The cells whose mean the cell `mean` shows."""
        named = (cell for cell in self.cells if cell.measurable or cell.part.published)
        return [cell for cell in named if (cell.column, cell.part.metric) == (mean.column, mean.part.metric)]

    def gaps(self, layout: Layout) -> dict[str, Path]:
        """The experiments and foreign images with a missing cell, each with the file that would fill it."""
        missing = (cell.part for cell in self.cells if cell.state == "missing" and cell.measurable)
        return {str(part.experiment or part.foreign): results(layout, part) for part in missing}


def build(config: Config, layout: Layout, name: str, table: Table | None = None) -> Sheet:
    """Build the sheet of a table (by default the one in params/) from the results on disk. Cells without a result are
    missing."""
    table = table or cast(Table, config.pick("tables", name))

    @cache
    def summary(experiment: str) -> Summary | None:
        return read_summary(config, layout, experiment)

    def cell(part: CellSpec, column: Column) -> Cell:
        blank = Cell(part, "missing", paper=_published(config, part.paper, part))
        if part.published:
            return _filled(blank, table, column, "published", _published(config, part.published, part))
        if part.foreign:
            return _evaluated(blank, table, column, results(layout, part))
        return _measured(blank, table, column, summary(str(part.experiment)))

    def line(row: Row) -> Line:
        blank = Published(source="", values={})
        source = config.params.published[row.published] if row.published else blank
        cite = config.params.foreign[row.foreign].cite if row.foreign else source.cite
        cells = tuple(cell(next(specs), column) for column in table.columns)
        return Line(cells[0].row, row.title, cells, row.metric, cite, source.quoted, row.ours)

    specs = iter(table.cells)
    blocks = [Block(tuple(line(row) for row in group.rows), group.title, group.label) for group in table.groups]
    if table.average:
        blocks.append(_average(table, blocks))
    return Sheet(name, table, tuple(_marked(table, blocks)))


def read_summary(config: Config, layout: Layout, experiment: str) -> Summary | None:
    """The summary of an experiment; None if it is not measured; an error if it contradicts its metrics files."""
    path = layout.summary(experiment)
    if not path.exists():
        return None
    summary: Summary = read_json(path, dict[str, int | Metrics])
    if summary != summarise(config, layout, experiment):
        raise UserError(f"{path} does not match the files beside it; make it again with `{make_command(path, '-f')}`.")
    return summary


def results(layout: Layout, part: CellSpec) -> Path:
    """The file that fills a measured cell."""
    if part.foreign:
        return layout.foreign(part.foreign, str(part.protocol))
    return layout.summary(str(part.experiment))


def sources(config: Config, layout: Layout, part: CellSpec) -> list[Path]:
    """The files behind a measured cell, the summary first."""
    first = results(layout, part)
    if part.experiment is None:
        return [first]
    if str(part.section).startswith("latency"):
        return [first, layout.latency(part.experiment)]
    seeds = config.experiment(part.experiment).seeds
    return [first, *(layout.metrics(part.experiment, str(part.protocol), seed) for seed in seeds)]


def format_number(value: float, column: Column, table: Table) -> str:
    scaled = value * column.times / UNITS[column.unit]
    decimals = column.digits if column.digits is not None else table.digits
    if column.significant is not None:
        magnitude = math.floor(math.log10(abs(scaled))) if scaled else 0
        decimals = max(0, column.significant - 1 - magnitude)
    if column.whole_from is not None and abs(scaled) >= column.whole_from:
        decimals = 0
    return f"{scaled:,.{decimals}f}{column.unit}"


def _published(config: Config, entry: str | None, part: CellSpec) -> float | None:
    assert part.metric is not None
    return config.params.published[entry].values.get(part.metric) if entry else None


def _measured(blank: Cell, table: Table, column: Column, summary: Summary | None) -> Cell:
    section = (summary or {}).get(str(blank.part.section), {})
    metric = str(blank.part.metric)
    cell = _filled(blank, table, column, "measured", section.get(metric), section.get(f"{metric}_std"))
    return replace(cell, sampling=section.get(f"{metric}_sampling"))


def _evaluated(blank: Cell, table: Table, column: Column, path: Path) -> Cell:
    """A cell of foreign images: they have metrics, but no time or parameters."""
    if blank.part.metric in COST_METRICS:
        return replace(blank, state="unreported")
    if not path.exists():
        return blank
    file, metric = read_json(path, Foreign), str(blank.part.metric)
    if wrong := file.get("off_protocol"):
        made = f"rtm evaluate {blank.part.foreign} --protocol {blank.part.protocol}"
        raise UserError(f"{path} is off protocol ({'; '.join(wrong)}) and fills no table; make it with `{made}`.")
    cell = _filled(blank, table, column, "evaluated", file["metrics"].get(metric))
    return replace(cell, sampling=half_widths(file.get("intervals", {})).get(metric))


def _filled(
    blank: Cell, table: Table, column: Column, state: State, value: float | None, std: float | None = None
) -> Cell:
    if value is None:
        return replace(blank, state="unreported" if state == "published" else "missing")
    text = format_number(value, column, table)
    decimals = len(text.rstrip("kM").partition(".")[2])
    spread = "" if std is None else f"{std * column.times / UNITS[column.unit]:,.{decimals}f}"
    return replace(blank, state=state, value=value, std=std, text=text, spread=spread)


def _average(table: Table, blocks: list[Block]) -> Block:
    """The means over the rows of each metric; a mean with a missing cell is missing."""
    lines = [line for block in blocks for line in block.lines]
    labelled = len(table.head) == 2
    averages = []
    for metric in dict.fromkeys(line.metric for line in lines):
        chosen = [line for line in lines if line.metric == metric]
        name = f"average_{metric}" if metric else "average"
        columns = zip(*(line.cells for line in chosen), strict=True)
        cells = tuple(_mean(name, table, column, cells) for column, cells in zip(table.columns, columns, strict=True))
        averages.append(Line(name, chosen[0].title if labelled else "Average", cells, metric))
    return Block(tuple(averages), label="Average" if labelled else None)


def _mean(row: str, table: Table, column: Column, cells: tuple[Cell, ...]) -> Cell:
    states = {cell.state for cell in cells}
    first = cells[0].part
    part = CellSpec(row=row, column=column.id, metric=first.metric, protocol=first.protocol, better=first.better)
    papers = [cell.paper for cell in cells if cell.paper is not None]
    paper = fmean(papers) if len(papers) == len(cells) else None
    blank = Cell(part, "missing", paper=paper)
    if len(states) > 1 or states & {"missing", "unreported"}:
        return blank if "missing" in states else replace(blank, state="unreported")
    values = [cell.value for cell in cells if cell.value is not None]
    return _filled(blank, table, column, cells[0].state, fmean(values))


def _marked(table: Table, blocks: list[Block]) -> list[Block]:
    """Mark the best and second best of every column, row or group, as the table defines."""
    scopes: dict[tuple[object, ...], list[Cell]] = {}
    for number, block in enumerate(blocks):
        averaged = table.average and block is blocks[-1]
        for cell in (cell for line in block.lines for cell in line.cells):
            scope = {"column": (cell.column, averaged), "row": (cell.row,), "group": (cell.column, number)}[table.best]
            scopes.setdefault(scope, []).append(cell)
    marks = {name: mark for cells in scopes.values() for name, mark in _ranked(cells, table.second).items()}

    def marked(line: Line) -> Line:
        return replace(line, cells=tuple(replace(c, mark=marks.get((c.row, c.column))) for c in line.cells))

    return [replace(block, lines=tuple(marked(line) for line in block.lines)) for block in blocks]


def _ranked(cells: list[Cell], second: bool) -> dict[tuple[str, str], Mark]:
    """The marks by (row, column): ties share a mark, and a single value gets none."""
    compared = {(cell.row, cell.column): cell for cell in cells if cell.part.better and cell.value is not None}
    if len(compared) < 2:
        return {}
    higher = next(iter(compared.values())).part.better == "higher"
    order = sorted({cell.shown for cell in compared.values()}, reverse=higher)
    ranks: dict[float, Mark] = {order[0]: "best"}
    if second and len(order) > 1:
        ranks[order[1]] = "second"
    return {name: ranks[cell.shown] for name, cell in compared.items() if cell.shown in ranks}
