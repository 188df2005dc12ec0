"""The chain of one number of a table, for `rtm lineage TABLE --cell ROW COLUMN`."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from typing_extensions import TypedDict

from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import digest, read_json
from rtm.lineage.format import JSON
from rtm.lineage.job import Job
from rtm.reports.cells import Cell, Sheet, build
from rtm.reports.chain import Chains, Link
from rtm.reports.mathematics import plain

WIDTH = 88


def trace(table: Job, row: str, column: str) -> Iterator[str]:
    """The lines to print: the number, its origin, and every link behind it."""
    config = load(table.scale)
    layout = config.layout
    sheet, chains = build(config, layout, table.name), Chains(config, layout)
    cell = find_cell(sheet, row, column)
    shown = cell.text + (f" ± {cell.spread}" if cell.spread else "")
    yield f"{layout.table(table.name)}: {cell.row} {cell.column} = {shown}"
    yield f"  {chains.origin(sheet, cell)}"
    if not cell.measurable and not cell.part.published:
        yield from (f"  {each.row} {each.text}" for each in sheet.averaged(cell))
    if cell.value is None or not cell.measurable:
        return
    links = [_rendered(chains, sheet, cell), *chains.of(cell.part)]
    for seed, of_seed in groupby(links, key=lambda link: link.seed):
        yield "" if seed is None else f"  seed {seed}"
        for link in of_seed:
            yield from _lines(link)


def find_cell(sheet: Sheet, row: str, column: str) -> Cell:
    """Find a cell by the names in the .csv, or by the titles in the table."""
    lines = [line for line in sheet.lines if row in (line.id, plain(line.title))]
    places = [place for place, each in enumerate(sheet.table.columns) if column in (each.id, plain(each.title))]
    if len(lines) != 1:
        known = ", ".join(line.id for line in sheet.lines)
        raise UserError(f"{sheet.name} has {len(lines) or 'no'} rows {row!r}; choose one of {known}.")
    if len(places) != 1:
        known = ", ".join(each.id for each in sheet.table.columns)
        raise UserError(f"{sheet.name} has {len(places) or 'no'} columns {column!r}; choose one of {known}.")
    return lines[0].cells[places[0]]


class Recorded(TypedDict):
    """The part of <table>.lineage.json that is read."""

    files: dict[str, dict[str, Any]]
    cells: list[dict[str, Any]]


def _rendered(chains: Chains, sheet: Sheet, cell: Cell) -> Link:
    """The link of the table itself: whether its files changed, and whether it shows the current number."""
    job, recorded = chains.graph[f"table/{sheet.name}"], chains.layout.table(sheet.name, ".lineage.json")
    changes = [f"{path} is not here" for path in job.outputs if not path.exists()]
    changes += chains.ledger.untrue(job) if chains.ledger.receipt(job) else ["it has no receipt"]
    changes += _outdated(read_json(recorded, Recorded), cell) if recorded.exists() else []
    return Link("table", str(job.outputs[0]), changes=tuple(changes))


def _outdated(recorded: Recorded, cell: Cell) -> Iterator[str]:
    named = (each for each in recorded["cells"] if (each.get("row"), each.get("column")) == (cell.row, cell.column))
    then: JSON = next(named, {})
    for path in map(str, then.get("files", [])):
        if not Path(path).is_file() or digest(path) != recorded["files"].get(path, {}).get("sha256"):
            yield f"{path} changed since the table was rendered"
    if then.get("shown") != cell.text:
        yield f"it shows {then.get('shown', 'no such cell')}: render it again"


def _lines(link: Link) -> Iterator[str]:
    """One line, or two if it would be too long."""
    rest = ", ".join(part for part in (link.digest, link.state) if part)
    line = f"    {link.kind:<11} {link.what}"
    if rest and len(line) + len(rest) + 2 <= WIDTH:
        yield f"{line}, {rest}"
    else:
        yield line
        if rest:
            yield f"{'':<16}{rest}"
