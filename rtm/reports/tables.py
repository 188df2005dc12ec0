"""Write a table as .tex, .csv, .md, with a macro for every number and the lineage of every cell."""

from pathlib import Path
from typing import Any

import pandas as pd

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.files import digest, read_json, write_json, write_text
from rtm.core.layout import Layout
from rtm.reports import latex
from rtm.reports.cells import Block, Cell, Line, Sheet, build, sources
from rtm.reports.mathematics import plain
from rtm.reports.notes import measuring, notes

ARROWS = {"higher": " ↑", "lower": " ↓", None: ""}
SUFFIXES = (".tex", ".csv", ".md", ".macros.tex", ".lineage.json")


def render_table(config: Config, layout: Layout, name: str, available: bool = False) -> Sheet:
    """Write the table's files and return the sheet. With `available`, missing cells are shown instead of an error."""
    sheet = build(config, layout, name)
    absent = [name for name, path in sheet.gaps(layout).items() if not path.exists()]
    if absent and not available:
        some = absent[0] + (f" and {len(absent) - 1} more" if len(absent) > 1 else "")
        scale = "" if config.scale_name == "paper" else f" --scale {config.scale_name}"
        raise UserError(
            f"{layout.table(name)} needs results of {some}; make them with `{measuring(config, layout, sheet)}`, "
            f"or show the available ones with `rtm table {name} --available{scale}`."
        )
    footnotes = notes(config, layout, sheet)
    write_text(layout.table(name), to_tex(sheet, footnotes))
    write_text(layout.table(name, ".md"), to_markdown(sheet, footnotes))
    write_text(layout.table(name, ".csv"), to_frame(config, sheet).to_csv(index=False))
    write_text(layout.table(name, ".macros.tex"), to_macros(sheet))
    write_json(layout.table(name, ".lineage.json"), to_lineage(config, layout, sheet))
    return sheet


def to_tex(sheet: Sheet, footnotes: list[str]) -> str:
    spans = label_spans(sheet)

    def row(block: Block, line: Line) -> str:
        title = latex.escape(line.title) + (r"$^\dagger$" if line.dagger else "")
        title += rf"~\citep{{{line.cite}}}" if line.cite else ""
        title += r" \textbf{(Ours)}" if line.ours else ""
        label = [""] if block.label else []
        if line.id in spans:
            label = [rf"\multirow{{{spans[line.id]}}}{{*}}{{{latex.stacked(str(block.label), 'l')}}}"]
        return " & ".join([*label, title, *map(latex.cell, line.cells)]) + r" \\"

    return latex.environment().get_template("table.tex.j2").render(sheet=sheet, notes=footnotes, row=row)


def to_markdown(sheet: Sheet, footnotes: list[str]) -> str:
    columns = [plain(column.title) + ARROWS[column.better] for column in sheet.table.columns]
    header = [*map(_in_markdown, sheet.table.head), *map(_in_markdown, columns)]
    lines = []
    for block in sheet.blocks:
        if block.title:
            lines.append([f"*{_in_markdown(block.title)}*", *[""] * (len(header) - 1)])
        for line in block.lines:
            label = [_in_markdown(block.label)] if block.label else []
            lines.append([*label, _in_markdown(plain_title(line)), *map(_markdown_cell, line.cells)])
    template = latex.environment().get_template("table.md.j2")
    footnotes = [note.replace("Grey:", "Italic:").replace("underlined", "with a line below") for note in footnotes]
    return template.render(sheet=sheet, header=header, lines=lines, notes=footnotes)


def to_frame(config: Config, sheet: Sheet) -> pd.DataFrame:
    """One line for each cell. It has the cell's state, so that nobody mistakes a published number for ours."""
    titles = {line.id: (block, line) for block in sheet.blocks for line in block.lines}
    records = []
    for cell in sheet.cells:
        block, line = titles[cell.row]
        group = block.label or block.title
        records.append(
            {
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
                "source": _source(config, sheet, cell),
                "paper": cell.paper,
            }
        )
    return pd.DataFrame.from_records(records)


def to_macros(sheet: Sheet) -> str:
    """\\TabCifarOneZeroImleRtmFid for row cifar10_imle_rtm, column fid of tab_cifar10; ...Std where there are seeds."""
    subject = sheet.name.removeprefix("tab_") + "_"
    macros = []
    for cell in sheet.cells:
        name = latex.macro_name(sheet.name, cell.row.removeprefix(subject), cell.column)
        macros.append((name, cell.text.replace(",", "{,}")))
        if cell.spread:
            macros.append((f"{name}Std", cell.spread.replace(",", "{,}")))
    return latex.environment().get_template("macros.tex.j2").render(sheet=sheet, macros=macros)


def to_lineage(config: Config, layout: Layout, sheet: Sheet) -> dict[str, Any]:
    files = {path: _file(path) for cell in _measured(sheet) for path in sources(config, layout, cell.part)}
    return {
        "table": sheet.name,
        "scale": config.scale_name,
        "files": {str(path): description for path, description in files.items()},
        "cells": [_cell_lineage(config, layout, sheet, cell) for cell in sheet.cells],
    }


def plain_title(line: Line) -> str:
    return plain(line.title) + ("†" if line.dagger else "") + (" (ours)" if line.ours else "")


def label_spans(sheet: Sheet) -> dict[str, int]:
    """The number of lines that a label spans, by the id of its first line."""
    spans: dict[str, int] = {}
    start = label = None
    for block in sheet.blocks:
        if block.label is None or block.label != label:
            start, label = block.lines[0].id, block.label
        if label is not None and start is not None:
            spans[start] = spans.get(start, 0) + len(block.lines)
    return spans


def _in_markdown(text: str) -> str:
    """A title in a cell of a Markdown table."""
    return plain(text).replace("|", r"\|").replace("<", "&lt;")


def _markdown_cell(cell: Cell) -> str:
    if cell.value is None:
        return "--∗" if cell.state == "missing" else "--"
    text = {"best": f"**{cell.text}**", "second": f"<u>{cell.text}</u>", None: cell.text}[cell.mark]
    text = {"published": f"*{text}*", "evaluated": f"{text}‡"}.get(cell.state, text)
    return f"{text} ± {cell.spread}" if cell.spread else text


def _measured(sheet: Sheet) -> list[Cell]:
    """The measured cells that have a file; averages have no file."""
    return [cell for cell in sheet.cells if cell.state in ("measured", "evaluated") and cell.measurable]


def _source(config: Config, sheet: Sheet, cell: Cell) -> str:
    part = cell.part
    if part.foreign:
        return config.params.foreign[part.foreign].source
    if part.published:
        return config.params.published[part.published].source
    if part.experiment:
        return part.experiment
    averaged = dict.fromkeys(_source(config, sheet, each) for each in sheet.averaged(cell))
    return f"mean of {'; '.join(averaged)}"


def _file(path: Path) -> dict[str, Any]:
    return {"sha256": digest(path), "provenance": read_json(path, dict[str, Any]).get("provenance", {})}


def _cell_lineage(config: Config, layout: Layout, sheet: Sheet, cell: Cell) -> dict[str, Any]:
    part = cell.part
    entry: dict[str, Any] = {
        "row": cell.row,
        "column": cell.column,
        "metric": part.metric,
        "state": cell.state,
        "shown": cell.text,
        "value": cell.value,
        "std": cell.std,
        "sampling": cell.sampling,
    }
    if cell.measurable:
        own = {"experiment": part.experiment}
        entry |= {"foreign": part.foreign, "source": _source(config, sheet, cell)} if part.foreign else own
        entry |= {"section": part.section}
        entry |= {"files": [str(path) for path in sources(config, layout, part)]} if cell.value is not None else {}
        to_come = cell.state == "missing" and not cell.uncomputed(layout)
        entry |= {"filled_by": measuring(config, layout, sheet)} if to_come else {}
    elif part.published:
        entry |= {"published": part.published, "source": _source(config, sheet, cell)}
    else:
        entry |= {"mean_of": [other.row for other in sheet.averaged(cell)]}
    return entry | ({"paper": cell.paper} if cell.paper is not None else {})
