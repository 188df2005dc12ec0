"""Progress: a short log of a long job, and a file for the display of many jobs."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from rtm.core.progress import progress, rough_time, track
from rtm.core.readers import read_json


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which the test sets. Progress is printed as for a log file."""
    now = [1000.0]
    monkeypatch.setattr("time.time", lambda: now[0])
    monkeypatch.delenv("RTM_PROGRESS", raising=False)
    return now


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.4, "0 s"), (119, "119 s"), (120, "2.0 min"), (2700, "45.0 min"), (7199, "120.0 min"), (11160, "3.1 h")],
)
def test_a_time_has_the_unit_that_suits_it(seconds: float, shown: str) -> None:
    assert rough_time(seconds) == shown


def test_the_log_of_a_long_job_is_short_and_tells_the_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    times = []
    with progress("train x", 36_000) as report:
        for done in range(1, 36_001):  # ten hours
            clock[0] += 1
            report(done, loss=1 / 3)
            if line := capsys.readouterr().err:
                times.append(done)
                assert line == f"train x: {done}/36000  {rough_time(36_000 - done)} left  loss 0.3333\n"
    gaps = [after - before for before, after in pairwise(times)]
    assert gaps == sorted(gaps)
    assert min(gaps) >= 10
    assert max(gaps) <= 601
    assert len(times) < 200


def test_what_was_done_before_does_not_shorten_the_time_left(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    """A resumed job counts its earlier steps, which took no time now. Its second line gives the right time left."""
    with progress("train x", 1000) as report:
        for done in (500, 501, 502):
            clock[0] += 20
            report(done)
    assert re.findall(r"(\d+)/1000  (.*?) left", capsys.readouterr().err)[1:] == [("501", "2.8 h"), ("502", "2.8 h")]


def test_a_display_has_a_file_while_the_job_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTM_PROGRESS", str(tmp_path))
    seen = []
    for _ in track(range(2), "prepare x", 2):
        (path,) = tmp_path.iterdir()
        seen.append({key: read_json(path)[key] for key in ("description", "done", "total")})
    assert seen[0] == {"description": "prepare x", "done": 0, "total": 2}
    assert not list(tmp_path.iterdir())
    with pytest.raises(KeyError), progress("fails", 1):
        assert len(list(tmp_path.iterdir())) == 1
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_tracking_changes_nothing() -> None:
    assert list(track(iter("abc"), "read", 3)) == ["a", "b", "c"]


def test_a_terminal_without_rich_gets_lines(
    clock: list[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A light install has no rich."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setattr("rtm.core.progress.find_spec", lambda name: None)
    with progress("download x", 2) as report:
        clock[0] += 20
        report(1)
    assert capsys.readouterr().err == "download x: 1/2  20 s left  \n"
