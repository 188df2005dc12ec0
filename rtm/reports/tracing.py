"""The chain of one number of a table, for `rtm lineage TABLE --cell ROW COLUMN`."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rtm.core.errors import UserError
from rtm.reports.cells import Cell, Sheet
from rtm.reports.chain import Chains, Link
from rtm.reports.mathematics import plain
from rtm.reports.sheets import build
from rtm.stages.base import Job

WIDTH = 88
Names = tuple[str, str]  # in the .csv and in the table


def trace(table: Job, row: str, column: str) -> Iterator[str]:
    """The lines to print: the number, its origin, and every link behind it."""
    sheet = build(table.config, table.name)
    chains = Chains(table.config)
    cell = find_cell(sheet, row, column)
    spread = f" ± {cell.spread}" if cell.spread else ""
    yield f"{table.first}: {cell.row} {cell.column} = {cell.text}{spread}"
    yield f"  {chains.origin(sheet, cell)}"
    if not cell.measurable and not cell.part.published:
        for other in sheet.averaged(cell):
            yield f"  {other.row} {other.text}"
    if cell.value is None or not cell.measurable:
        return
    rendered = Link("table", str(table.first), changes=tuple(chains.freshness.why(table)))
    links = [rendered, *chains.of(cell.part)]
    for seed, of_seed in groupby(links, key=lambda link: link.seed):
        yield "" if seed is None else f"  seed {seed}"
        for link in of_seed:
            yield from _lines(link)


def find_cell(sheet: Sheet, row: str, column: str) -> Cell:
    """Find a cell by the names in the .csv, or by the titles in the table."""
    rows = [(line.id, plain(line.title)) for line in sheet.lines]
    columns = [(heading.id, plain(heading.title)) for heading in sheet.table.columns]
    row_number = _place(sheet.name, "rows", row, rows)
    column_number = _place(sheet.name, "columns", column, columns)
    return sheet.lines[row_number].cells[column_number]


def _place(table: str, kind: str, name: str, known: Sequence[Names]) -> int:
    """The only place with this name or title."""
    places = [place for place, names in enumerate(known) if name in names]
    if len(places) != 1:
        count = len(places) or "no"
        options = ", ".join(option for option, _ in known)
        raise UserError(f"{table} has {count} {kind} {name!r}; choose one of {options}.")
    return places[0]


def _lines(link: Link) -> Iterator[str]:
    """One line, or two if it would be too long."""
    line = f"    {link.kind:<11} {link.what}"
    rest = ", ".join(filter(None, [link.digest, link.state]))
    whole = ", ".join(filter(None, [line, rest]))
    if rest and len(whole) > WIDTH:
        yield line
        yield f"{'':<16}{rest}"
    else:
        yield whole
