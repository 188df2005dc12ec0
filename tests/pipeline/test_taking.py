"""Earlier results are taken before jobs are planned; a dry run changes no file."""

import atexit
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.small_jobs import job, make, state, train, training

from rtm.lineage.earlier import SWITCH
from rtm.lineage.freshness import Freshness, State
from rtm.pipeline.taking import Taking

pytestmark = pytest.mark.usefixtures("repository")


@pytest.fixture
def taken_again(repository: Path) -> None:
    """A training with one value, then with another."""
    train(training(lr=1), "first")
    train(training(lr=2), "second")


@pytest.mark.usefixtures("taken_again")
def test_a_run_takes_the_earlier_result(capsys: pytest.CaptureFixture[str]) -> None:
    Taking(Freshness(), lambda: True).take(training(lr=1))
    assert training().first.read_text("utf-8") == "first"
    assert state(training(lr=1)) is State.FRESH
    assert "train/x/seed0 comes from DVC's cache, made" in capsys.readouterr().err


def test_jobs_need_not_look_again() -> None:
    Taking(Freshness(), lambda: False).take(training())
    assert SWITCH not in os.environ
    Taking(Freshness(), lambda: True).take(training())
    assert os.environ[SWITCH] == "asked"


@pytest.mark.usefixtures("taken_again")
def test_a_dry_run_plans_as_if_it_were_here(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    training().first.unlink()
    freshness = Freshness()
    taking = Taking(freshness, lambda: False)
    taking.take(training(lr=1))
    assert freshness.is_fresh(training(lr=1))
    assert taking.coming == [str(training().first)]
    assert not training().first.exists()
    assert state(training(lr=1)) is State.STALE
    assert "would come from DVC's cache" in capsys.readouterr().err
    (announce,) = at_exit
    announce()
    assert capsys.readouterr().out.startswith("1 result would come from DVC's cache, not from a job")


@pytest.mark.usefixtures("taken_again")
def test_what_is_before_a_job_comes_first() -> None:
    before = training(lr=1)
    table = job("table", before)
    Taking(Freshness(), lambda: True).take(table)
    assert state(before) is State.FRESH
    make(table)
    assert state(table) is State.FRESH
    assert Path("out/table.txt").exists()
