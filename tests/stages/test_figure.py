"""A figure reads galleries, curves or measurements, by its kind."""

import pytest
from support import PARAMS

from rtm.config import load
from rtm.stages.figure import Figure

DEMO = load("demo", PARAMS)


@pytest.mark.parametrize(
    ("name", "stages"),
    [
        ("fig_digits_samples", {"gallery"}),
        ("fig_digits_curves", {"train"}),
        ("fig_digits_sweep", {"summary", "evaluate", "latency"}),
    ],
)
def test_a_figure_reads_what_it_shows(name: str, stages: set[str]) -> None:
    job = Figure().job(DEMO, figure=name)
    assert {before.stage.name for before in job.inputs} == stages


def test_a_figure_of_trainings_reads_their_curves() -> None:
    job = Figure().job(DEMO, figure="fig_digits_curves")
    assert all(path == before.outputs["curve"] for before, path in job.reads())


def test_captions_and_mappers_are_values() -> None:
    job = Figure().job(DEMO, figure="fig_digits_samples")
    assert job.values["figure"]["caption"] == DEMO.figures["fig_digits_samples"].caption
    assert job.values["labels"].keys() == set(DEMO.figures["fig_digits_samples"].experiments)
