"""The verbs that show: an experiment's values, the states of trainings and what is removed of them."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from support import PARAMS
from support.command import rtm

from rtm.cli import showing
from rtm.core.files import write_text
from rtm.pipeline.states import Kind, RunState
from rtm.pipeline.status import RunStatus

WAITING = RunStatus("digits_rtm", 0, "waiting", 0, 2000)
RUNNING = replace(
    WAITING,
    state="running",
    step=500,
    speed=12.345,
    remaining=310.0,
    job="4711",
    losses={"loss": 0.25},
)
DONE = replace(
    WAITING,
    seed=1,
    state="done",
    step=2000,
    gpu_hours=1234.56,
    losses={"fid": 3.0},
)
FAILED = replace(
    WAITING,
    seed=2,
    state="failed",
    step=1500,
    gpu_hours=1.0,
)


def table(*runs: RunStatus) -> list[str]:
    console = Console(width=80)
    with console.capture() as shown:
        console.print(showing._table(runs))
    return shown.get().splitlines()


def test_every_value_of_an_experiment_has_its_origin() -> None:
    lines = rtm("show", "digits_rtm+mapper.H=4", "--scale", "demo").stdout.splitlines()
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in lines}
    assert rows["mapper.H"] == ["4", "the name of the variant"]
    assert rows["training.lr"] == ["0.004", "params/recipes.yaml recipes.digits_imle"]
    assert rows["training.accumulate"] == ["1", "default"]


def test_the_title_counts_what_is_going_on() -> None:
    title, *_ = table(DONE, WAITING, FAILED, DONE, RUNNING)
    assert title.split() == ["1", "running,", "1", "failed,", "2", "done,", "1", "waiting,", "2,470.1", "GPU-hours"]


def test_a_line_holds_what_is_known() -> None:
    _, _, running, waiting, done = table(RUNNING, WAITING, DONE)
    assert running.split() == ["digits_rtm/0", "running", "500", "25%", "12.3", "5m10s", "4711", "0.25"]
    assert waiting.split() == ["digits_rtm/0", "waiting"]
    assert done.split() == ["digits_rtm/1", "done", "2k", "100%", "1234.6"]


def test_slurms_reason_is_said_while_it_waits() -> None:
    *_, waiting, running = table(*(replace(status, reason="Priority") for status in (WAITING, RUNNING)))
    assert "waiting (Priority)" in waiting
    assert "Priority" not in running


def test_running_trainings_are_watched_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are first because a small screen cuts off the end of the table."""

    def stop(_: float) -> None:
        raise KeyboardInterrupt

    runs = [DONE, WAITING, replace(RUNNING, seed=3), FAILED, replace(RUNNING, seed=4, step=900)]
    monkeypatch.setattr(showing, "statuses", lambda _: runs)
    monkeypatch.setattr(time, "sleep", stop)
    answer = rtm("status", "--watch", "--scale", "demo")
    assert answer.returncode == 130
    lines = [line for line in answer.stdout.splitlines() if line.startswith("digits_rtm/")]
    assert [line.split()[0][-1] for line in lines[-5:]] == ["4", "3", "2", "1", "0"]


RUN = RunState(Path("demo/runs/digits_rtm/0123"), 0, "finished", 7, 5, 3.0)


def runs_of(monkeypatch: pytest.MonkeyPatch, *kinds: Kind) -> list[Path]:
    """Folders of states of these kinds; the tests of states test how a kind is found."""
    runs = [replace(RUN, folder=Path(f"runs/digits_rtm/{place}"), kind=kind) for place, kind in enumerate(kinds)]
    for run in runs:
        write_text(run.folder / "state.pt", "state")
    monkeypatch.setattr(showing, "states", lambda: iter(runs))
    return [run.folder for run in runs]


def status(option: str) -> list[str]:
    answer = rtm("status", option, cwd=Path.cwd())
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "params").symlink_to(PARAMS)
    monkeypatch.chdir(tmp_path)


def test_states_are_listed_with_what_would_be_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = runs_of(monkeypatch, "finished", "orphaned")
    first, second, total = status("--runs")
    assert first.split() == ["finished", str(own), "seed", "0", "step", "7", "3s", "5", "B"]
    assert second.split()[:2] == ["orphaned", str(other)]
    assert total == "2 states, 10 B; `rtm status --clean` removes 1 finished ones, 5 B"
    assert own.exists()


def test_only_finished_ones_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    own, *others = runs_of(monkeypatch, "finished", "orphaned", "unfinished", "not recorded", "being trained")
    first, total = status("--clean")
    assert first.startswith(f"removed finished       {own}")
    assert total == "1 states removed, 5 B are free now"
    assert not own.exists()
    assert all(other.exists() for other in others)
