"""Tables in the terminal, readable at 80 columns, with and without colours."""

import textwrap
from dataclasses import dataclass
from itertools import zip_longest

from rich.console import Console
from rich.text import Text

from rtm.config.reports import Column
from rtm.reports.cells import Cell, Sheet
from rtm.reports.mathematics import plain
from rtm.reports.tables import ARROWS, plain_title

STYLES = {"best": "bold", "second": "underline", None: ""}
BRACKETS = {"best": "[{}]", "second": "({})", None: " {} "}  # marks without bold, for pipes and log files
WITH_COLOURS = {"Grey:": "Dim:"}
WITHOUT_COLOURS = {"Bold:": "[ ]:", "underlined:": "( ):", "Grey:": "°:"}
NARROWEST = 12  # characters of a column of titles
Lines = list[Text]  # the lines of one cell
Row = list[Lines] | str  # cells, or the title of a group


def print_table(sheet: Sheet, console: Console | None = None) -> None:
    """Print a table. On narrow screens the spread goes below its value, then long row titles wrap."""
    console = console or Console()
    styled = console.is_terminal
    rows = _Rows(sheet, styled).all()
    if sum(_widths(rows)) > console.width:
        rows = _Rows(sheet, styled, stacked=True).all()
    widths = _widths(rows)
    excess = sum(widths) - console.width
    if excess > 0:
        titles = widths[len(sheet.table.head) - 1] - 1
        rows = _Rows(sheet, styled, stacked=True, room=max(NARROWEST, titles - excess)).all()
    _print(console, sheet, rows)
    words = WITH_COLOURS if styled else WITHOUT_COLOURS
    for note in sheet.notes:
        for word, replacement in words.items():
            note = note.replace(word, replacement)
        console.print(Text(note, style="dim"))
    console.print()


@dataclass(frozen=True)
class _Rows:
    """The rows of a table, in one of its layouts."""

    sheet: Sheet
    styled: bool  # with colours
    stacked: bool = False  # the spread below its value
    room: int | None = None  # the width of row titles, if they wrap

    def all(self) -> list[Row]:
        """The header and all rows."""
        table = self.sheet.table
        titles = [plain(title) for title in table.head]
        titles += [self.heading(column) for column in table.columns]
        rows: list[Row] = [[_text(title) for title in titles]]
        label = None
        remaining: list[str] = []
        for block in self.sheet.blocks:
            if block.title or (block.label is None and len(rows) > 1):
                rows.append(plain(block.title or ""))
            if block.label is not None and block.label != label:
                label = block.label
                remaining = label.split("\n")
            for line in block.lines:
                title = plain_title(line)
                names = [textwrap.fill(title, self.room) if self.room else title]
                if block.label is not None:
                    names.insert(0, remaining.pop(0) if remaining else "")
                rows.append([*map(_text, names), *map(self.value, line.cells)])
        return rows

    def heading(self, column: Column) -> str:
        title = plain(column.title)
        arrow = ARROWS[column.better]
        if not self.stacked:
            return title + arrow
        if " " not in title:
            arrow = arrow.replace(" ", "\n")
        return title.replace(" ", "\n") + arrow

    def value(self, cell: Cell) -> Lines:
        if cell.value is None:
            return _text("--∗" if cell.state == "missing" else "--", "dim")
        number = cell.text + ("‡" if cell.state == "evaluated" else "")
        published = cell.state == "published"
        if self.styled:
            dim = " dim" if published else ""
            value = Text(number, f"{STYLES[cell.mark]}{dim}".strip())
        else:
            circle = "°" if published else ""
            value = Text(BRACKETS[cell.mark].format(number + circle))
        if not cell.spread:
            return [value]
        spread = Text(f"±{cell.spread}", "dim")
        return [value, spread] if self.stacked else [Text.assemble(value, " ", spread)]


def _text(text: str, style: str = "") -> Lines:
    return [Text(line, style) for line in text.split("\n")]


def _widths(rows: list[Row]) -> list[int]:
    """The widths of the columns, each with a space after it."""
    columns = zip(*(row for row in rows if not isinstance(row, str)), strict=True)
    return [1 + max(line.cell_len for lines in column for line in lines) for column in columns]


def _print(console: Console, sheet: Sheet, rows: list[Row]) -> None:
    widths = _widths(rows)
    names = len(sheet.table.head)
    rule = Text("─" * min(sum(widths) - 1, console.width), "dim")
    console.print(Text(plain(sheet.table.title), "bold"))
    console.print(rule)
    for number, row in enumerate(rows):
        if isinstance(row, str):
            console.print(Text(row, "italic") if row else rule)
            continue
        for texts in zip_longest(*row, fillvalue=Text()):
            console.print(_padded(texts, widths, names), no_wrap=True, crop=False, overflow="ignore")
        if number == 0:
            console.print(rule)
    console.print(rule)


def _padded(texts: tuple[Text, ...], widths: list[int], names: int) -> Text:
    """Align names to the left and numbers to the right."""
    line = Text()
    for column, (text, width) in enumerate(zip(texts, widths, strict=True)):
        aligned = text.copy()
        aligned.align("left" if column < names else "right", width - 1)
        line = Text.assemble(line, aligned, " ")
    line.rstrip()
    return line
