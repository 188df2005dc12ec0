"""The estimated time of a trial, and the length that fits the given minutes."""

from dataclasses import replace

import pytest

from rtm.config import Config, Experiment
from rtm.trial import timing
from rtm.trial.beginning import provisional
from rtm.trial.recipe import FEWEST_STEPS, Choice, Machine
from rtm.trial.timing import Pace, length

SHA256 = "0" * 64
CHOICE = Choice("cats", 100, 32, Machine(2, 0), 48)
PACE = Pace(step=0.02, pooled=0.001)


def rtm_of(choice: Choice) -> Experiment:
    return provisional(choice, SHA256).experiments[f"{choice.name}_rtm"]


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(_: Config, experiment: Experiment) -> Pace:
        assert experiment.name == "cats_rtm"  # the slower one
        return PACE

    monkeypatch.setattr(timing, "pace", known)


@pytest.mark.parametrize("epochs", [1, 48, 50, 200])  # after 48 a ninth round begins
def test_a_training_takes_its_steps_and_its_rounds(epochs: int) -> None:
    experiment = rtm_of(replace(CHOICE, epochs=epochs))
    recipe, images = experiment.recipe, experiment.dataset.count
    assert recipe.imle is not None
    seconds, seen, due = 0.0, 0, 0
    for _ in range(experiment.steps()):
        if seen >= due:  # a round begins
            seconds, due = seconds + recipe.imle.pool * images * PACE.pooled, due + images * recipe.imle.refresh
        seconds, seen = seconds + PACE.step, seen + recipe.training.batch
    assert PACE.seconds(experiment) == pytest.approx(seconds)


@pytest.mark.parametrize(("cores", "gpus", "minutes"), [(1, 0, 60), (2, 0, 2), (2, 0, 10), (16, 0, 60), (8, 1, 60)])
def test_the_trial_takes_about_the_minutes_that_were_given(cores: int, gpus: int, minutes: int) -> None:
    """The time includes both trainings: at the same time with two or more cores and no GPU, otherwise one after the
    other."""
    choice, seconds = length(replace(CHOICE, machine=Machine(cores, gpus)), SHA256, minutes, None)
    assert seconds == pytest.approx(PACE.seconds(rtm_of(choice)) * (1 if cores > 1 and not gpus else 2))
    assert 0.9 * minutes * 60 < seconds < 1.1 * minutes * 60


def test_without_minutes_they_are_the_machines() -> None:
    assert length(CHOICE, SHA256, None, None) == length(CHOICE, SHA256, CHOICE.machine.minutes, None)


def test_epochs_are_taken_as_they_are() -> None:
    choice, seconds = length(CHOICE, SHA256, None, 7)
    assert choice == replace(CHOICE, epochs=7) and seconds == pytest.approx(PACE.seconds(rtm_of(choice)))


def test_a_slow_machine_trains_long_enough_to_see_something(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Pace(step=100.0, pooled=1.0)
    monkeypatch.setattr(timing, "pace", lambda *_: slow)
    choice, seconds = length(CHOICE, SHA256, 1.0, None)
    assert choice.steps >= FEWEST_STEPS and seconds > 60
