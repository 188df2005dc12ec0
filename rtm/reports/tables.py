"""Write a table as .tex, .csv, .md, with a macro for every number and the lineage of every cell."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.files import digest, write_text
from rtm.core.readers import read_json
from rtm.reports import latex
from rtm.reports.cells import Cell, Line, Sheet
from rtm.reports.mathematics import plain
from rtm.reports.sheets import build
from rtm.reports.summary import evaluating, sources
from rtm.stages.table import Table

ARROWS = {"higher": " ↑", "lower": " ↓", None: ""}
MARKS = {"best": "**{}**", "second": "<u>{}</u>", None: "{}"}


def render_table(config: Config, name: str, available: bool = False) -> Sheet:
    """Write the table's files and return the sheet. With `available`, missing cells are shown instead of an error."""
    sheet = build(config, name)
    if not available:
        _check_whole(sheet)
    for key, text_of in WRITERS.items():
        write_text(Table().path(config, key, table=name), text_of(sheet))
    return sheet


def _check_whole(sheet: Sheet) -> None:
    path = sheet.job.first
    show = f"show the available ones with `rtm table {sheet.name} --available{sheet.config.option}`"
    if sheet.gaps:
        first, *others = sheet.gaps
        some = f"{first} and {len(others)} more" if others else first
        raise UserError(f"{path} needs results of {some}; make them with `{sheet.command}`, or {show}.")
    for cell in sheet.unmeasured:
        remedy = evaluating(cell.part)
        raise UserError(f"{path} needs {cell.part.measured}; make it with `{remedy}`, or {show}.")


def to_tex(sheet: Sheet) -> str:
    return latex.environment().get_template("table.tex.j2").render(sheet=sheet, spans=label_spans(sheet))


def to_markdown(sheet: Sheet) -> str:
    environment = latex.environment()
    environment.filters |= {"md": _in_markdown, "row_title": plain_title, "cell": _markdown_cell}
    environment.globals |= {"arrows": ARROWS}
    return environment.get_template("table.md.j2").render(sheet=sheet)


def to_csv(sheet: Sheet) -> str:
    """One line for each cell. It has the cell's state, so that nobody mistakes a published number for ours."""
    records = _records(sheet)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def to_macros(sheet: Sheet) -> str:
    """\\TabCifarOneZeroImleRtmFid for row cifar10_imle_rtm, column fid of tab_cifar10; ...Std where there are seeds."""
    subject = sheet.name.removeprefix("tab_") + "_"
    macros = []
    for cell in sheet.cells:
        row = cell.row.removeprefix(subject)
        name = latex.macro_name(sheet.name, row, cell.column)
        macros.append((name, latex.number(cell.text)))
        if cell.spread:
            macros.append((f"{name}Std", latex.number(cell.spread)))
    return latex.environment().get_template("macros.tex.j2").render(sheet=sheet, macros=macros)


def to_lineage(sheet: Sheet) -> str:
    """The cells as in the .csv, with the files behind them, and the hashes of these files."""
    files = {str(path): path for cell in sheet.measured for path in sources(sheet.config, cell.part)}
    cells = [record | _behind(sheet, cell) for cell, record in zip(sheet.cells, _records(sheet), strict=True)]
    lineage = {
        "table": sheet.name,
        "scale": sheet.config.scale_name,
        "files": {name: _file(path) for name, path in files.items()},
        "cells": cells,
    }
    return json.dumps(lineage, indent=2, sort_keys=True, allow_nan=False) + "\n"


WRITERS = {
    "tex": to_tex,
    "csv": to_csv,
    "md": to_markdown,
    "macros": to_macros,
    "lineage": to_lineage,
}


def plain_title(line: Line) -> str:
    return plain(line.title) + ("†" if line.dagger else "") + (" (ours)" if line.ours else "")


def label_spans(sheet: Sheet) -> dict[str, int]:
    """The number of lines that a label spans, by the id of its first line."""
    spans: dict[str, int] = {}
    start = ""
    label = None
    for block in sheet.blocks:
        if block.label is None or block.label != label:
            start = block.lines[0].id
            label = block.label
        if label is not None:
            spans[start] = spans.get(start, 0) + len(block.lines)
    return spans


def _in_markdown(text: str) -> str:
    """A title in a cell of a Markdown table."""
    return plain(text).replace("|", r"\|").replace("<", "&lt;")


def _markdown_cell(cell: Cell) -> str:
    if cell.value is None:
        return "--∗" if cell.state == "missing" else "--"
    text = MARKS[cell.mark].format(cell.text)
    if cell.state == "published":
        text = f"*{text}*"
    if cell.state == "evaluated":
        text = f"{text}‡"
    return f"{text} ± {cell.spread}" if cell.spread else text


def _records(sheet: Sheet) -> list[dict[str, Any]]:
    """Each cell with its place, value and source."""
    records = []
    for block in sheet.blocks:
        group = block.label or block.title
        for line in block.lines:
            for cell in line.cells:
                record = {
                    "group": plain(group) if group else None,
                    "title": plain(line.title),
                    "row": cell.row,
                    "column": cell.column,
                    "metric": cell.part.metric,
                    "value": cell.value,
                    "std": cell.std,
                    "sampling": cell.sampling,
                    "shown": cell.text,
                    "mark": cell.mark,
                    "state": cell.state,
                    "source": _source(sheet, cell),
                    "paper": cell.paper,
                }
                records.append(record)
    return records


def _source(sheet: Sheet, cell: Cell) -> str:
    part = cell.part
    if part.published:
        return sheet.config.params.published[part.published].source
    if cell.measurable:
        return str(part.experiment or part.measured)
    averaged = dict.fromkeys(_source(sheet, other) for other in sheet.averaged(cell))
    return f"mean of {'; '.join(averaged)}"


def _behind(sheet: Sheet, cell: Cell) -> dict[str, Any]:
    """The files that give the value of a cell, or the rows of a mean."""
    if cell.value is not None and cell.measurable:
        return {"files": [str(path) for path in sources(sheet.config, cell.part)]}
    if cell.measurable or cell.part.published:
        return {}
    return {"mean_of": [other.row for other in sheet.averaged(cell)]}


def _file(path: Path) -> dict[str, Any]:
    return {"sha256": digest(path), "provenance": read_json(path, dict[str, Any]).get("provenance", {})}
