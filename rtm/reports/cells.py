"""A table ready to be written in any format: blocks of lines of cells, each cell with value, state and mark."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from rtm.config import Config
from rtm.config.catalogue import METRICS
from rtm.config.reports import CellSpec, Column, Metric, TableEntry
from rtm.reports.commands import making
from rtm.stages.base import Job
from rtm.stages.table import Table

State = Literal["measured", "evaluated", "published", "missing", "unreported"]
Mark = Literal["best", "second"]
OURS = ("measured", "evaluated")  # the states of numbers that were measured here
UNITS = {"": 1.0, "k": 1e3, "M": 1e6}


@dataclass(frozen=True)
class Cell:
    part: CellSpec
    heading: Column
    table: TableEntry
    state: State = "missing"
    value: float | None = None
    std: float | None = None
    text: str = "--"  # the value as shown
    spread: str = ""  # the standard deviation as shown
    sampling: float | None = None  # half the 95 % interval over the generated images, averaged over single seeds
    mark: Mark | None = None
    paper: float | None = None  # the paper's number for the same cell
    uncomputed: bool = False  # missing, although its experiment was measured

    @property
    def row(self) -> str:
        return self.part.row

    @property
    def column(self) -> str:
        return self.part.column

    @property
    def measurable(self) -> bool:
        """Whether a result file gives its value; averages and published numbers have no such file."""
        return bool(self.part.experiment or self.part.measured)

    @property
    def title(self) -> str:
        """The title of its metric."""
        return METRICS[str(self.part.metric)].title

    def write(self, number: float) -> str:
        """A number as the column shows it."""
        heading = self.heading
        scaled = self.scaled(number)
        decimals = self.table.digits if heading.digits is None else heading.digits
        if heading.significant is not None:
            magnitude = math.floor(math.log10(abs(scaled))) if scaled else 0
            decimals = max(0, heading.significant - 1 - magnitude)
        if heading.whole_from is not None and abs(scaled) >= heading.whole_from:
            decimals = 0
        return f"{scaled:,.{decimals}f}{heading.unit}"

    def scaled(self, number: float) -> float:
        return number * self.heading.times / UNITS[self.heading.unit]

    def filled(self, state: State, value: float, std: float | None = None) -> "Cell":
        """The cell with a value, and its spread with as many decimals."""
        text = self.write(value)
        spread = ""
        if std is not None:
            decimals = len(text.rstrip("kM").partition(".")[2])
            spread = f"{self.scaled(std):,.{decimals}f}"
        return replace(
            self,
            state=state,
            value=value,
            std=std,
            text=text,
            spread=spread,
        )

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
class RowGroup:
    """Rows between two rules."""

    lines: tuple[Line, ...]
    title: str | None = None
    label: str | None = None


@dataclass(frozen=True)
class Sheet:
    config: Config
    name: str
    table: TableEntry
    blocks: tuple[RowGroup, ...]
    notes: tuple[str, ...] = ()  # plain text; `...` is code, and ∗, † and ‡ are the marks of the table

    @property
    def job(self) -> Job:
        return Table().job(self.config, table=self.name)

    @property
    def command(self) -> str:
        """The command that makes the table, and so measures its missing cells."""
        return making(self.job)

    @property
    def lines(self) -> list[Line]:
        return [line for block in self.blocks for line in block.lines]

    @property
    def cells(self) -> list[Cell]:
        return [cell for line in self.lines for cell in line.cells]

    @property
    def measured(self) -> list[Cell]:
        """The cells that show a result file."""
        return [cell for cell in self.cells if cell.state in OURS and cell.measurable]

    @property
    def experiments(self) -> list[str]:
        """The experiments that it shows, or would show."""
        return _once(cell.part.experiment for cell in self.cells)

    @property
    def unmeasured(self) -> list[Cell]:
        """The missing cells whose result files are missing."""
        return [cell for cell in self.cells if cell.state == "missing" and cell.measurable and not cell.uncomputed]

    @property
    def gaps(self) -> list[str]:
        """The experiments that must be measured."""
        return _once(cell.part.experiment for cell in self.unmeasured)

    def averaged(self, mean: Cell) -> list[Cell]:
        """The cells whose mean the cell `mean` shows."""
        sources = [cell for cell in self.cells if cell.measurable or cell.part.published]
        return [cell for cell in sources if cell.column == mean.column and cell.part.metric == mean.part.metric]


def _once(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))
