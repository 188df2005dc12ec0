"""Helpers for tests of tables and figures."""

from typing import Any

from support import PARAMS

from rtm.config import Config, load
from rtm.config.reports import FigureEntry
from rtm.reports.cells import Cell
from rtm.reports.sheets import build

PAPER, DEMO, SMOKE = (load(scale, PARAMS) for scale in ("paper", "demo", "smoke"))


def cell_of(config: Config, table: str, row: str, column: str) -> Cell:
    return next(cell for cell in build(config, table).cells if (cell.row, cell.column) == (row, column))


def figure(kind: str, **values: Any) -> FigureEntry:
    fields = {"kind": kind, "title": "x", "caption": "x", "experiments": ("digits_mlp8", "digits_rtm")}
    return FigureEntry.model_validate(fields | values)
