"""Cells: how a value is written, which values are marked, and when there is an average."""

from pathlib import Path

import numpy as np
import pytest
from support import fake_results
from support.reports import DEMO, PAPER, cell_of

from rtm.config import load
from rtm.core.layout import Layout
from rtm.reports import latex
from rtm.reports.cells import build


def test_kid_is_shown_in_thousandths(tmp_path: Path) -> None:
    desk, layout = load("desk"), Layout(tmp_path, tmp_path)
    fake_results.write_results(desk, layout, "desk_mlp8", {}, spread=0.1)
    cell = cell_of(desk, layout, "tab_desk", "desk_mlp8", "kid")
    assert cell.value == pytest.approx(0.005)
    seeds = len(desk.experiment("desk_mlp8").seeds)
    assert (cell.text, cell.spread) == ("5.0", f"{5 * np.std(np.linspace(-0.1, 0.1, seeds), ddof=1):.1f}")


def test_several_seeds_give_mean_and_deviation(demo: Layout) -> None:
    cell = cell_of(DEMO, demo, "tab_digits", "digits_mlp8", "fid")
    assert (cell.text, cell.spread) == ("100.0", "10.0")
    assert latex.cell(cell) == r"100.0\,{\scriptsize$\pm$\,10.0}"


def pair(tmp_path: Path, first: float, second: float) -> list[str | None]:
    """The marks of two measured FIDs in the depth table; the other two FIDs are much worse."""
    layout = Layout(tmp_path, tmp_path)
    fids = dict(zip(PAPER.tables["tab_depth_ablation"].experiments(), (first, second, 900.0, 900.0), strict=True))
    for name, fid in fids.items():
        fake_results.write_results(PAPER, layout, name, {"studiogan": {"fid": fid}})
    cells = [cell for cell in build(PAPER, layout, "tab_depth_ablation").cells if cell.column == "fid"]
    return [cell.mark for cell in cells[:2]]


def test_lower_is_better_for_fid(tmp_path: Path) -> None:
    assert pair(tmp_path, 3.0, 4.0) == ["best", None]


def test_values_that_read_the_same_share_the_mark(tmp_path: Path) -> None:
    assert pair(tmp_path, 3.001, 3.004) == ["best", "best"]


def test_a_lone_value_is_not_called_the_best(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    fake_results.write_results(PAPER, layout, "afhq_stylegan2_ada_rtm", {})
    assert all(cell.mark is None for cell in build(PAPER, layout, "tab_stylegan").cells)


def test_an_average_over_a_gap_is_a_gap(tmp_path: Path) -> None:
    layout = Layout(tmp_path, tmp_path)
    fake_results.write_results(PAPER, layout, "obama_imle_rtm", {"rs_imle": {"fid": 3.0}})
    assert cell_of(PAPER, layout, "tab_fid", "average", "imle_rtm").state == "missing"
    assert cell_of(PAPER, layout, "tab_fid", "average", "fastgan").text == "57.6"
