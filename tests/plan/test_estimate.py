"""Estimates: the arithmetic of the roofline, how often each part happens, and the warnings."""

import math
from collections import Counter
from dataclasses import replace

import pytest
from support.plans import CONFIG, H100, rehearsal, tally

from rtm.plan.estimate import Plan, seconds, times
from rtm.plan.tally import GIB, Tally, chunk_count, round_count


def test_the_longest_of_arithmetic_traffic_and_launch_counts() -> None:
    large, small = 6e12 / (0.6 * 989e12), 2e-6  # 1 GB takes 0.4 ms, less than the product; 1 MB takes less than 2 us
    assert seconds(tally(), H100, 1) == pytest.approx(2 * large + 3 * small)
    host_bound = Tally(kernels=Counter({("", 0.0, 512): 1000}))
    assert seconds(host_bound, H100, 1) == pytest.approx(1000 * 5e-6)
    sent = Tally(copied=55 * 10**9, exchanged=450 * 10**9)
    assert seconds(sent, H100, 8) == pytest.approx(1 + 1)
    assert seconds(sent, H100, 16) == pytest.approx(1 + 9)  # the data goes over the network


def test_a_run_is_steps_and_rounds() -> None:
    experiment = CONFIG.experiments["cifar10_imle_rtm"]
    assert round_count(experiment) == 3000 and chunk_count(experiment, 4) == math.ceil(500000 / 256 / 4)
    assert times(experiment, rehearsal()) == {
        "step": 6000 * 50000 / 256, "decode": 30000, "features": 30000, "search": 30000, "begin": 3000, "data": 1,
    }  # fmt: skip
    plan = Plan(experiment, rehearsal(), H100)
    assert plan.hours == pytest.approx(seconds(tally(), H100, 4) * sum(times(experiment, rehearsal()).values()) / 3600)
    assert set(plan.hours_of) == {"step", "decoding", "features", "search"}
    assert plan.gpu_hours == 4 * plan.hours
    assert sum(plan.memory.values()) == plan.peak


def test_it_warns_of_memory_and_of_hours() -> None:
    experiment = CONFIG.experiments["cifar10_imle_rtm"]
    fits, too_large = (Plan(experiment, rehearsal(peak), H100) for peak in (GIB, 79 * GIB))
    assert not any("GiB" in warning for warning in fits.warnings)
    assert any("needs 80 GiB" in warning for warning in too_large.warnings)

    def asking(hours: float) -> list[str]:
        resources = experiment.recipe.resources.model_copy(update={"hours": hours})
        recipe = experiment.recipe.model_copy(update={"resources": resources})
        return Plan(replace(experiment, recipe=recipe), rehearsal(), H100).warnings

    planned = fits.hours
    assert not asking(1.9 * planned) and not asking(planned / 1.9)
    assert asking(2.1 * planned) and asking(planned / 2.1)
