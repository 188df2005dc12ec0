"""Every kind of recipe does its real steps at full size, without a GPU."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support import PARAMS, smoke_workspace
from torch.profiler import ProfilerActivity, profile

from rtm.config import Experiment, load
from rtm.plan.estimate import OVERHEAD, Estimate
from rtm.plan.rehearsal import count_cost, in_place_of_files, rehearsing, step_kinds
from rtm.plan.tally import GIB
from rtm.training import rehearsal

CONFIG = load("paper", PARAMS)
# methods, decoders, mappers and precisions: each kind at least once
KINDS = ("celebahq_imle_mlp", "obama_imle_attention", "cifar10_stylegan2_ada_rtm", "afhq_stylegan2_ada_mlp")


@pytest.mark.slow(seconds=15)
@pytest.mark.parametrize("name", KINDS)
def test_every_recipe_fits(name: str) -> None:
    experiment = CONFIG.experiments[name]
    cost = count_cost(experiment, experiment.recipe.resources.gpus)
    plan = Estimate(experiment, cost, CONFIG.params.devices["h100"])
    assert plan.fits
    assert plan.peak + OVERHEAD < plan.device.memory_gib * GIB


@pytest.mark.slow(seconds=25)
def test_what_each_process_of_a_group_holds() -> None:
    """Each process holds the weights, the optimiser and the data's features. The processes share the images of a step
    and the pool."""
    four, sixteen = (count_cost(CONFIG.experiments["cifar10_imle_rtm"], world) for world in (4, 16))
    assert four.holds == pytest.approx(sixteen.holds, rel=0.05)
    activations = [cost.parts["step"].peak - sum(cost.holds.values()) for cost in (four, sixteen)]
    assert activations[1] < activations[0] / 2.5
    assert sixteen.parts["step"].flops == pytest.approx(four.parts["step"].flops / 4, rel=0.02)
    gradients = four.holds["parameters"]
    assert four.parts["step"].exchanged == pytest.approx(2 * gradients * 3 / 4, rel=0.01)
    assert sixteen.parts["step"].exchanged == pytest.approx(2 * gradients * 15 / 16, rel=0.01)


@pytest.mark.slow(seconds=4)
def test_of_an_approximate_search_the_plan_counts_the_exact_one() -> None:
    search = {"kind": "ivf", "lists": 8, "probes": 2, "checked": 5}
    changes: list[dict[str, object]] = [{}, {"search": search}]
    exact, approximate = (count_cost(smoke_workspace.experiment("shells_imle_rtm", each), 1) for each in changes)
    assert exact.parts["search"].flops > 0
    assert approximate.parts["search"].flops == exact.parts["search"].flops


def small(name: str) -> Experiment:
    """An experiment of the paper, small enough for a few seconds on a CPU. Its memory is mostly activations."""
    chosen = CONFIG.experiments[name]
    recipe = chosen.recipe
    training = {"batch": 16, "precision": "float32", "compile": False}
    changes: dict[str, Any] = {"dim": 128, "training": recipe.training.model_copy(update=training)}
    if recipe.imle:
        changes["imle"] = recipe.imle.model_copy(update={"chunk": 32, "projection": 32})
    if recipe.stylegan2:
        gan = {"channel_base": 2048, "channel_max": 64, "mbstd_group": 4}
        changes["stylegan2"] = recipe.stylegan2.model_copy(update=gan)
    sizes = {
        "width": 64,
        "widths": {},
        "blocks": {
            1: 1,
            4: 1,
            8: 1,
            16: 2,
            32: 2,
        },
    }
    return replace(
        chosen,
        recipe=recipe.model_copy(update=changes),
        dataset=chosen.dataset.model_copy(update={"count": 64, "resolution": 32}),
        decoder=chosen.decoder and chosen.decoder.model_copy(update=sizes),
    )


def measured_rise(experiment: Experiment) -> int:
    """The additional memory of a real step on the CPU, from the profiler's list of allocations."""
    with in_place_of_files(), rehearsal.rehearsing(experiment, Path(), torch.device("cpu")) as real:
        real.method.step(0)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
            real.method.step(1)
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    in_use = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        in_use += event.nbytes()
        peak = max(peak, in_use)
    return peak


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("name", ["cifar10_imle_rtm", "obama_imle_attention", "cifar10_stylegan2_ada_mlp"])
def test_memory_is_that_of_a_real_step(name: str) -> None:
    experiment = small(name)
    with rehearsing(experiment, 1) as (meter, counted):
        counted.step(0)
        before = meter.in_use
        with meter.scope("step") as tally:
            counted.step(1)
    assert tally.peak - before == pytest.approx(measured_rise(experiment), rel=0.1)


def test_a_chunk_may_be_larger_than_the_data() -> None:
    experiment = load("demo", PARAMS).experiments["digits_rtm"]
    few = replace(experiment, dataset=experiment.dataset.model_copy(update={"count": 48}))
    assert few.recipe.imle
    assert few.recipe.imle.chunk > 48
    assert {"step", "decode", "features", "search", "begin"} == count_cost(few, 1).parts.keys()


def test_kinds_of_steps_cover_a_run() -> None:
    plain = step_kinds(CONFIG.experiments["cifar10_stylegan2_rtm"])
    assert plain == {"step + R1": (0, 1 / 16), "step": (1, 15 / 16)}
    with_paths = step_kinds(CONFIG.experiments["afhq_stylegan2_ada_rtm"])
    assert with_paths == {"step + path + R1": (0, 1 / 16), "step": (1, 12 / 16), "step + path": (4, 3 / 16)}
