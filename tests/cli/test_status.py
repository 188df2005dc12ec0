"""`rtm status`: one line for each training, and a summary above the lines."""

import time
from dataclasses import replace

import pytest
from rich.console import Console

from rtm.cli import status as module
from rtm.reports.status import RunStatus

WAITING = RunStatus("digits_rtm", 0, "waiting", 0, 2000, None, None, 0.0, None, None, {}, None)
RUNNING = replace(WAITING, state="running", step=500, speed=12.345, remaining=310.0, job="4711", losses={"loss": 0.25})
DONE = replace(WAITING, seed=1, state="done", step=2000, gpu_hours=1234.56, losses={"fid": 3.0})
FAILED = replace(WAITING, seed=2, state="failed", step=1500, gpu_hours=1.0)


def printed(*found: RunStatus) -> list[str]:
    console = Console(width=80)
    with console.capture() as shown:
        console.print(module._table(found))
    return shown.get().splitlines()


def test_the_title_counts_what_is_going_on() -> None:
    title, *_ = printed(DONE, WAITING, FAILED, DONE, RUNNING)
    assert title.split() == ["1", "running,", "1", "failed,", "2", "done,", "1", "waiting,", "2,470.1", "GPU-hours"]


def test_a_line_holds_what_is_known() -> None:
    _, _, running, waiting, done = printed(RUNNING, WAITING, DONE)
    assert running.split() == ["digits_rtm/0", "running", "500", "25%", "12.3", "5m10s", "4711", "0.25"]
    assert waiting.split() == ["digits_rtm/0", "waiting"]
    assert done.split() == ["digits_rtm/1", "done", "2k", "100%", "1234.6"]


def test_slurms_reason_is_said_while_it_waits() -> None:
    *_, waiting, running = printed(*(replace(each, reason="Priority") for each in (WAITING, RUNNING)))
    assert "waiting (Priority)" in waiting and "Priority" not in running


def test_running_trainings_are_watched_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are first because a small screen cuts off the end of the table."""

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    runs = [DONE, WAITING, replace(RUNNING, seed=3), FAILED, replace(RUNNING, seed=4, step=900)]
    monkeypatch.setattr(module, "statuses", lambda _: runs)
    monkeypatch.setattr(time, "sleep", stop)
    with pytest.raises(KeyboardInterrupt):
        module.show("demo", watch=True)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("digits_rtm/")]
    assert [line.split()[0][-1] for line in lines[-5:]] == ["4", "3", "2", "1", "0"]
