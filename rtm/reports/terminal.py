"""Tables in the terminal, readable at 80 columns, with and without colours."""

import textwrap
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from rtm.config import Config
from rtm.config.reports import Column
from rtm.core.layout import Layout
from rtm.reports.cells import Cell, Sheet
from rtm.reports.mathematics import plain
from rtm.reports.notes import notes
from rtm.reports.tables import ARROWS, plain_title

STYLES = {"best": "bold", "second": "underline", None: ""}
BRACKETS = {"best": "[{}]", "second": "({})", None: " {} "}  # marks without bold, for pipes and log files
WORDS = {True: {"Grey:": "Dim:"}, False: {"Bold:": "[ ]:", "underlined:": "( ):", "Grey:": "°:"}}
Lines = list[Text]  # the lines of one cell
Row = list[Lines] | str  # cells, or the title of a group


def print_table(config: Config, layout: Layout, sheet: Sheet, console: Console | None = None) -> None:
    """Print a table. On narrow screens the spread goes below its value, then long row titles wrap."""
    console = console or Console()
    styled = console.is_terminal
    rows = _rows(sheet, styled)
    if sum(_widths(rows)) > console.width:
        rows = _rows(sheet, styled, stacked=True)
    if (over := sum(_widths(rows)) - console.width) > 0:
        room = _widths(rows)[len(sheet.table.head) - 1] - 1 - over
        rows = _rows(sheet, styled, stacked=True, room=max(12, room))
    _print(console, sheet, rows)
    for note in notes(config, layout, sheet):
        for word, replacement in WORDS[styled].items():
            note = note.replace(word, replacement)
        console.print(Text(note, style="dim"))
    console.print()


def _rows(sheet: Sheet, styled: bool, stacked: bool = False, room: int | None = None) -> list[Row]:
    """The header and all rows; `room` is the width of row titles."""
    head = [_text(plain(title)) for title in sheet.table.head]
    rows: list[Row] = [[*head, *(_text(_heading(column, stacked)) for column in sheet.table.columns)]]
    label, remaining = None, [""]
    for block in sheet.blocks:
        if block.title or (block.label is None and len(rows) > 1):
            rows.append(plain(block.title or ""))
        if block.label is not None and block.label != label:
            label, remaining = block.label, block.label.split("\n")
        for line in block.lines:
            first = [_text(remaining.pop(0) if remaining else "")] if block.label is not None else []
            name = textwrap.fill(plain_title(line), room) if room else plain_title(line)
            rows.append([*first, _text(name), *(_value(cell, styled, stacked) for cell in line.cells)])
    return rows


def _heading(column: Column, stacked: bool) -> str:
    title, arrow = plain(column.title), ARROWS[column.better]
    if not stacked:
        return title + arrow
    return title.replace(" ", "\n") + (arrow if " " in title else arrow.replace(" ", "\n"))


def _value(cell: Cell, styled: bool, stacked: bool) -> Lines:
    if cell.value is None:
        return _text("--∗" if cell.state == "missing" else "--", "dim")
    published, evaluated = cell.state == "published", "‡" if cell.state == "evaluated" else ""
    if styled:
        value = Text(cell.text + evaluated, f"{STYLES[cell.mark]} {'dim' if published else ''}".strip())
    else:
        value = Text(BRACKETS[cell.mark].format(cell.text + evaluated + ("°" if published else "")))
    if not cell.spread:
        return [value]
    spread = Text(f"±{cell.spread}", "dim")
    return [value, spread] if stacked else [Text.assemble(value, " ", spread)]


def _text(text: str, style: str = "") -> Lines:
    return [Text(line, style) for line in text.split("\n")]


def _widths(rows: list[Row]) -> list[int]:
    """The widths of the columns, each with a space after it."""
    cells = [row for row in rows if not isinstance(row, str)]
    return [1 + max(line.cell_len for lines in column for line in lines) for column in zip(*cells, strict=True)]


def _print(console: Console, sheet: Sheet, rows: list[Row]) -> None:
    widths, names = _widths(rows), len(sheet.table.head)
    rule = Text("─" * min(sum(widths) - 1, console.width), "dim")
    console.print(Text(plain(sheet.table.title), "bold"))
    console.print(rule)
    for number, row in enumerate(rows):
        if isinstance(row, str):
            console.print(Text(row, "italic") if row else rule)
            continue
        for lines in zip_longest(*row, fillvalue=Text()):
            console.print(_padded(lines, widths, names), no_wrap=True, crop=False, overflow="ignore")
        if number == 0:
            console.print(rule)
    console.print(rule)


def _padded(lines: tuple[Text, ...], widths: list[int], names: int) -> Text:
    """Align names to the left and numbers to the right."""
    padded = Text()
    for column, (text, width) in enumerate(zip(lines, widths, strict=True)):
        space = " " * (width - 1 - text.cell_len)
        padded = Text.assemble(padded, *((text, space) if column < names else (space, text)), " ")
    padded.rstrip()
    return padded
