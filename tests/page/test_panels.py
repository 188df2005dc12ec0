"""Small curves stay in their box, and the ticks enclose all values."""

from pathlib import Path

import pytest

from rtm.core.files import write_text
from rtm.page.panels import panels, read_curve


def test_curves_keep_their_ends_in_the_box() -> None:
    rows = [{"step": float(step), "loss": 2.0 / step, "rejected": 0.0} for step in range(1, 1001)]
    loss, rejected = panels([rows], total=2000)
    places = [tuple(map(float, point.split(","))) for point in loss.lines[0][1:].split("L")]
    assert len(places) < 130 and places[-1][0] == 130
    assert all(0 <= x <= 260 and 0 <= y <= 130 for x, y in places)
    assert loss.y[0].text == "0.002" and loss.last == "0.002"
    assert [tick.text for tick in rejected.y] == ["0", "0.5"]


def test_runs_that_are_compared_have_the_same_axes() -> None:
    """The values are 1 to 100. The flat line at 10 is in the middle of the logarithmic axis, and both panels have the
    same ticks."""
    flat, steep = [
        [{"step": float(step), "fid": fids[step]} for step in (0, 1)] for fids in ((10.0, 10.0), (100.0, 1.0))
    ]
    (one,), (other,) = (panels([own], 1, [flat, steep]) for own in (flat, steep))
    assert [tick.place for tick in one.y] == [tick.place for tick in other.y]
    assert one.lines == ("M0,65L260,65",) and other.lines == ("M0,0L260,130",)


def test_a_finished_curve_goes_before_its_log(tmp_path: Path) -> None:
    curve, log = tmp_path / "curve.csv", tmp_path / "log.jsonl"
    assert read_curve(curve, None) == [] == read_curve(curve, log)
    write_text(log, '{"step": 1, "loss": 2.0}\n{"step": 2, "lo')
    assert read_curve(curve, log) == [{"step": 1, "loss": 2.0}]
    write_text(curve, "step,loss,fid\n1,2.0,\n2,1.0,9\n")
    assert read_curve(curve, log) == [{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0, "fid": 9}]


def test_every_seed_has_a_line_and_its_last_value() -> None:
    runs = [[{"step": 0.0, "loss": 1.0}, {"step": 9.0, "loss": last}] for last in (0.5, 0.25)]
    (panel,) = panels([*runs, []], total=9)
    assert panel.title == "loss" and len(panel.lines) == 2
    assert "0.5" in panel.last and "0.25" in panel.last and [tick.text for tick in panel.x] == ["0", "9"]


@pytest.mark.parametrize("values", [(0.0, 1.0), (-1.0, 5.0), (1e-30, 1e30), (7.0, 7.0), (0.0, 0.0)])
def test_any_numbers_have_axes_that_hold_them(values: tuple[float, ...]) -> None:
    """This includes losses of 0 or below, which have no logarithm."""
    (panel,) = panels([[{"step": float(step), "loss": value} for step, value in enumerate(values)]], total=1)
    ticks = [float(tick.text) for tick in panel.y]
    assert len(ticks) > 1 and min(ticks) <= min(values) and max(values) <= max(ticks)
    assert all(0 <= tick.place <= 130 for tick in panel.y)
