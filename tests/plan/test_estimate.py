"""Estimates: the arithmetic of the roofline, how often each part happens, and the warnings."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from support.plans import CONFIG, H100, cost, tally

from rtm.plan.estimate import Estimate, seconds, times
from rtm.plan.tally import GIB, Tally, chunk_count, round_count

EXPERIMENT = CONFIG.experiments["cifar10_imle_rtm"]


def test_the_longest_of_arithmetic_traffic_and_launch_counts() -> None:
    large = 6e12 / (0.6 * 989e12)
    small = 2e-6
    assert seconds(tally(), H100, 1) == pytest.approx(2 * large + 3 * small)
    launches = Tally(kernels=Counter({("", 0.0, 512): 1000}))
    assert seconds(launches, H100, 1) == pytest.approx(1000 * 5e-6)
    message = Tally(exchanged=450 * 10**9)
    assert seconds(message, H100, 8) == pytest.approx(1)
    assert seconds(message, H100, 16) == pytest.approx(9)  # it goes over the network


def test_a_run_is_steps_and_rounds() -> None:
    assert round_count(EXPERIMENT) == 3000
    assert chunk_count(EXPERIMENT, 4) == math.ceil(500000 / 256 / 4) == 489
    chunks = dict.fromkeys(("decode", "features", "search"), 3000 * 489)
    counts = times(EXPERIMENT, cost())
    assert counts == {"step": 6000 * 50000 / 256, **chunks, "begin": 3000}
    plan = Estimate(EXPERIMENT, cost(), H100)
    assert plan.hours == pytest.approx(seconds(tally(), H100, 4) * sum(counts.values()) / 3600)
    assert set(plan.hours_of) == {"step", "decoding", "features", "search"}
    assert plan.gpu_hours == 4 * plan.hours
    assert sum(plan.memory.values()) == plan.peak == 2 * GIB


def test_it_warns_of_memory_and_of_hours() -> None:
    fits, too_large = (Estimate(EXPERIMENT, cost(peak), H100) for peak in (GIB, 79 * GIB))
    assert not any("GiB" in warning for warning in fits.warnings)
    assert any("needs 80 GiB" in warning for warning in too_large.warnings)

    def warnings(hours: float) -> list[str]:
        resources = EXPERIMENT.recipe.resources.model_copy(update={"hours": hours})
        recipe = EXPERIMENT.recipe.model_copy(update={"resources": resources})
        return Estimate(replace(EXPERIMENT, recipe=recipe), cost(), H100).warnings

    planned = fits.hours
    assert not warnings(1.9 * planned)
    assert not warnings(planned / 1.9)
    assert warnings(2.1 * planned)
    assert warnings(planned / 2.1)
