"""The pictures for figures: one gallery for each experiment, of its first seed."""

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.lineage.code import present
from rtm.stages.gallery import Gallery

DEMO = load("demo", PARAMS)


def test_there_is_one_of_each_experiment() -> None:
    names = [(names["experiment"], names["seed"]) for names in Gallery().every(DEMO)]
    assert names == [(experiment.name, experiment.seeds[0]) for experiment in DEMO.experiments.values()]


def test_it_reads_a_checkpoint_images_and_the_network_for_neighbours() -> None:
    job = Gallery().job(DEMO, experiment="digits_rtm", seed=0)
    ids = [before.id for before in job.inputs]
    assert ids == ["demo/train/digits_rtm/seed0", "dataset/digits300", "network/digit_classifier"]
    assert not any(name.startswith(("rtm.methods", "rtm.training")) for name in present().reached(job.code))


def test_another_seed_is_refused() -> None:
    with pytest.raises(UserError, match="Figures show only seed 0 of digits_rtm"):
        _ = Gallery().job(DEMO, experiment="digits_rtm", seed=1).inputs
