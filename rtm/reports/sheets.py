"""Fill the cells of a table from its definition and the results on disk."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from statistics import fmean

from rtm.config import Config
from rtm.config.catalogue import is_cost
from rtm.config.reports import CellSpec, Column, Group, Published, Row, TableEntry
from rtm.reports.cells import Cell, Line, Mark, RowGroup, Sheet, State
from rtm.reports.notes import notes
from rtm.reports.summary import Section, read_evaluated, read_summary

NOBODY = Published(source="", values={})
SOURCES = ("experiment", "measured", "published", "paper")  # parts that a mean of cells has not


def build(config: Config, name: str, table: TableEntry | None = None) -> Sheet:
    """The sheet of a table, by default of the one in params/. Cells without a result are missing."""
    if table is None:
        table = config.pick("tables", name)
    sheet = Sheet(config, name, table, _Filler(config, table).blocks())
    return replace(sheet, notes=tuple(notes(sheet)))


class _Filler:
    def __init__(self, config: Config, table: TableEntry) -> None:
        self.published = config.params.published
        self.table = table
        self.specs = iter(table.cells)
        self.summary = cache(partial(read_summary, config))

    def blocks(self) -> tuple[RowGroup, ...]:
        blocks = [self.block(group) for group in self.table.groups]
        if self.table.average:
            blocks.append(_average(self.table, blocks))
        return _marked(self.table, blocks)

    def block(self, group: Group) -> RowGroup:
        lines = [self.line(row) for row in group.rows]
        return RowGroup(tuple(lines), group.title, group.label)

    def line(self, row: Row) -> Line:
        source = self.published[row.published] if row.published else NOBODY
        cells = tuple(self.cell(next(self.specs), column) for column in self.table.columns)
        return Line(
            id=cells[0].row,
            title=row.title,
            cells=cells,
            metric=row.metric,
            cite=source.cite,
            dagger=source.quoted,
            ours=row.ours,
        )

    def cell(self, part: CellSpec, heading: Column) -> Cell:
        cell = Cell(part, heading, self.table, paper=self.constant(part.paper, part))
        unreported = replace(cell, state="unreported")
        if part.published:
            value = self.constant(part.published, part)
            return unreported if value is None else cell.filled("published", value)
        if part.experiment:
            summary = self.summary(part.experiment)
            if summary is None:
                return cell
            return _measured(cell, "measured", summary.get(str(part.section), {}))
        if is_cost(part.metric):  # images have no time and no parameters
            return unreported
        section = read_evaluated(part)
        return cell if section is None else _measured(cell, "evaluated", section)

    def constant(self, entry: str | None, part: CellSpec) -> float | None:
        return self.published[entry].values.get(str(part.metric)) if entry else None


def _measured(cell: Cell, state: State, section: Section) -> Cell:
    metric = str(cell.part.metric)
    if metric not in section:
        return replace(cell, uncomputed=True)
    cell = replace(cell, sampling=section.get(f"{metric}_sampling"))
    return cell.filled(state, section[metric], section.get(f"{metric}_std"))


def _average(table: TableEntry, blocks: list[RowGroup]) -> RowGroup:
    """The means over the rows of each metric; a mean with a missing cell is missing."""
    labelled = len(table.head) == 2
    by_metric: dict[str | None, list[Line]] = defaultdict(list)
    for block in blocks:
        for line in block.lines:
            by_metric[line.metric].append(line)
    averages = []
    for metric, lines in by_metric.items():
        name = f"average_{metric}" if metric else "average"
        title = lines[0].title if labelled else "Average"
        columns = zip(*(line.cells for line in lines), strict=True)
        cells = tuple(_mean(name, column) for column in columns)
        averages.append(Line(name, title, cells, metric))
    return RowGroup(tuple(averages), label="Average" if labelled else None)


def _mean(row: str, cells: Sequence[Cell]) -> Cell:
    first = cells[0]
    part = first.part.model_copy(update=dict.fromkeys(SOURCES) | {"row": row})
    papers = [cell.paper for cell in cells if cell.paper is not None]
    paper = fmean(papers) if len(papers) == len(cells) else None
    mean = Cell(part, first.heading, first.table, paper=paper)
    states = {cell.state for cell in cells}
    if "missing" in states:
        return mean
    if len(states) > 1 or "unreported" in states:
        return replace(mean, state="unreported")
    return mean.filled(first.state, fmean(cell.value for cell in cells if cell.value is not None))


def _marked(table: TableEntry, blocks: list[RowGroup]) -> tuple[RowGroup, ...]:
    """Mark the best and second best of every column, row or group, as the table defines."""
    scopes: dict[object, list[Cell]] = defaultdict(list)
    for number, block in enumerate(blocks):
        is_average = table.average and block is blocks[-1]
        for cell in (cell for line in block.lines for cell in line.cells):
            scope: dict[str, object] = {
                "column": (cell.column, is_average),
                "row": cell.row,
                "group": (cell.column, number),
            }
            scopes[scope[table.best]].append(cell)
    marks: dict[tuple[str, str], Mark] = {}
    for cells in scopes.values():
        marks |= _ranked(cells, table.second)

    def with_mark(cell: Cell) -> Cell:
        return replace(cell, mark=marks.get((cell.row, cell.column)))

    marked = []
    for block in blocks:
        lines = [replace(line, cells=tuple(map(with_mark, line.cells))) for line in block.lines]
        marked.append(replace(block, lines=tuple(lines)))
    return tuple(marked)


def _ranked(cells: list[Cell], second: bool) -> dict[tuple[str, str], Mark]:
    """The marks by (row, column): ties share a mark, and a single value gets none."""
    compared = [cell for cell in cells if cell.part.better and cell.value is not None]
    if len(compared) < 2:
        return {}
    higher = compared[0].part.better == "higher"
    numbers = sorted({cell.shown for cell in compared}, reverse=higher)
    names: list[Mark] = ["best", "second"] if second else ["best"]
    ranks = dict(zip(numbers, names, strict=False))
    return {(cell.row, cell.column): ranks[cell.shown] for cell in compared if cell.shown in ranks}
