"""The page's training curves: each seed a line, rivals in one picture."""

import base64
from pathlib import Path

import pytest

from rtm.core.files import write_text
from rtm.page.curves import POINTS, panels, read_curve
from rtm.reports.curves import Rows


def rows(*values: float, column: str = "loss") -> Rows:
    return [{"step": float(step), column: value} for step, value in enumerate(values)]


def drawn(*trainings: list[Rows]) -> dict[str, str]:
    """The SVG of each panel by its title."""
    named = {f"experiment{number}": seeds for number, seeds in enumerate(trainings)}
    return {title: base64.b64decode(source.partition(",")[2]).decode() for title, source in panels(named, 9).items()}


def test_every_seed_of_every_rival_has_a_line_and_every_rival_a_name() -> None:
    one = drawn([rows(1, 0.5), rows(1, 0.25), []])["loss"]
    two = drawn([rows(1, 0.5)], [rows(1, 0.25)])["loss"]
    assert one.count("stroke: #0072b2") == 2
    assert "experiment0" not in one
    assert two.count("experiment0") == two.count("experiment1") == 1
    assert "stroke: #d55e00" in two
    assert list(drawn([[*rows(1), *rows(1, column="fid"), {"step": 3.0, "lr": 1.0}]])) == ["loss", "FID"]
    assert panels({"x": [[]]}, 9) == {}


def test_long_curves_are_thinned_and_keep_their_ends() -> None:
    long = drawn([rows(*range(1, 100 * POINTS))])["loss"]
    assert len(long) < len(drawn([rows(*range(1, POINTS))])["loss"]) + 10_000


def test_a_finished_curve_goes_before_its_log(tmp_path: Path) -> None:
    curve = tmp_path / "curve.csv"
    log = tmp_path / "log.jsonl"
    assert read_curve(curve, None) == [] == read_curve(curve, log)
    write_text(log, '{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read_curve(curve, log) == [{"step": 1, "loss": 2.0}]
    write_text(curve, "step,loss,fid\n1,2.0,\n2,1.0,9\n")
    assert read_curve(curve, log) == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0, "fid": 9}]


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 5.0), (1e-30, 1e30), (7.0, 7.0), (0.0, 0.0), (3.0,)])
def test_any_numbers_are_drawn(values: tuple[float, ...]) -> None:
    """This includes losses of 0 or below, which have no logarithm."""
    assert "<path" in drawn([rows(*values)])["loss"]
