"""Helpers for tests of tables and figures."""

from typing import Any

from support import PARAMS

from rtm.config import Config, load
from rtm.config.reports import Figure
from rtm.core.layout import Layout
from rtm.reports.cells import Cell, build

PAPER, DEMO, SMOKE = (load(scale, PARAMS) for scale in ("paper", "demo", "smoke"))


def cell_of(config: Config, layout: Layout, table: str, row: str, column: str) -> Cell:
    return next(c for c in build(config, layout, table).cells if (c.row, c.column) == (row, column))


def figure(kind: str, **values: Any) -> Figure:
    given = {"kind": kind, "title": "x", "caption": "x", "experiments": ("digits_mlp8", "digits_rtm")} | values
    return Figure.model_validate(given)
