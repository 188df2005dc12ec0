"""Every kind of recipe runs its real steps at full size on a pretended GPU."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from support import PARAMS
from support.rehearsals import compiled_kernels, memory_of_steps, pretending, result, small
from torch.profiler import ProfilerActivity, profile

from rtm.config import Experiment, load
from rtm.config.experiments import DecoderConfig
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.plan.estimate import OVERHEAD, Plan
from rtm.plan.plan import Planner
from rtm.plan.rehearsal import BlankImages, blank_networks, step_kinds
from rtm.plan.tally import GIB
from rtm.training.loop import Run

# methods, decoders, mappers and precisions: each kind at least once
KINDS = (
    "cifar10_imle_rtm",
    "celebahq_imle_mlp",
    "obama_imle_rtm",
    "obama_imle_attention",
    "cifar10_stylegan2_ada_rtm",
    "afhq_stylegan2_ada_mlp",
)
# float64 is slow on most GPUs. It is allowed where results must be the same bits on every device, and in exact search.
EXACT = ("core/randomness.py", "core/neighbours.py", "core/distances.py", "methods/imle/matching.py")
UNIFORM = ("methods/stylegan2/augment.py", "models/drawing.py")  # few numbers: normal to uniform


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessPoolExecutor]:
    """One process for all rehearsals of this file, also for the planner's."""
    with pretending(tmp_path_factory.mktemp("driver")) as started, pytest.MonkeyPatch.context() as patched:
        patched.setattr("rtm.plan.plan.ProcessPoolExecutor", lambda *_: nullcontext(started))
        yield started


@pytest.fixture(scope="module")
def plans(pool: ProcessPoolExecutor) -> dict[str, Plan]:
    planned = Planner(load("paper", PARAMS)).plans(KINDS)
    return {plan.experiment.name: plan for plan in planned}


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("name", KINDS)
def test_a_step_neither_waits_nor_falls_into_float64(name: str, plans: dict[str, Plan]) -> None:
    """Tensors on different devices raise an error, so a finished plan proves that the devices do not mix."""
    for kind in plans[name].rehearsal.kinds:
        step = plans[name].rehearsal.parts[kind]
        assert not step.waits
        places = {place.partition(":")[0] for place in step.doubles}
        assert places <= {*EXACT, *UNIFORM}


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("name", KINDS)
def test_every_recipe_fits(name: str, plans: dict[str, Plan]) -> None:
    assert plans[name].peak + OVERHEAD < plans[name].device.memory_gib * GIB


@pytest.mark.slow(seconds=25)
def test_what_each_process_of_a_group_holds(plans: dict[str, Plan]) -> None:
    """Each process holds the weights, the optimiser and the data's features. The processes share the images of a step
    and the pool."""
    name, config = "cifar10_imle_rtm", load("paper", PARAMS)
    four, sixteen = plans[name].rehearsal, Planner(config, gpus=16).plans([name])[0].rehearsal
    assert (four.world, sixteen.world) == (4, 16)
    assert four.holds == pytest.approx(sixteen.holds, rel=0.05)  # features are padded to whole chunks for each process
    assert sixteen.chunks == pytest.approx(four.chunks / 4, abs=1)
    activations = [each.peaks["step"] - sum(each.holds.values()) for each in (four, sixteen)]
    assert activations[1] < activations[0] / 2.5
    assert sixteen.parts["step"].flops == pytest.approx(four.parts["step"].flops / 4, rel=0.02)
    gradients = four.holds["parameters"]
    assert four.parts["step"].exchanged == pytest.approx(2 * gradients * 3 / 4, rel=0.01)
    assert sixteen.parts["step"].exchanged == pytest.approx(2 * gradients * 15 / 16, rel=0.01)


def measured_rise(experiment: Experiment, folder: Path) -> int:
    """The additional memory of a real step on the CPU, from the profiler's list of allocations."""
    with blank_networks():
        setting = Setting(experiment, 0, BlankImages(experiment), folder, torch.device("cpu"))
        run = Run(build_method(setting), setting, folder)
        run.method.step(0)
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
            run.method.step(1)
    events = profiler.profiler.kineto_results.events()
    now = most = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


SMALL = ("cifar10_imle_rtm", "obama_imle_attention", "cifar10_stylegan2_ada_mlp")


@pytest.fixture(scope="module")
def rises(pool: ProcessPoolExecutor) -> dict[str, int]:
    found = result(pool, memory_of_steps, [small(name) for name in SMALL])
    return dict(zip(SMALL, found, strict=True))


@pytest.mark.slow(seconds=10)
@pytest.mark.parametrize("name", SMALL)
def test_memory_is_that_of_a_real_step(name: str, rises: dict[str, int], tmp_path: Path) -> None:
    assert rises[name] == pytest.approx(measured_rise(small(name), tmp_path), rel=0.1)


@pytest.mark.slow(seconds=55)
@pytest.mark.parametrize("name", ["cifar10_imle_rtm", "celebahq_imle_mlp"])
def test_compiled_kernels_are_valid_on_an_h100(name: str, pool: ProcessPoolExecutor) -> None:
    """One block each of the first two stages and the last, at full width and resolution. The other stages have the same
    kinds of kernels."""
    from dataclasses import replace

    experiment = load("paper", PARAMS).experiments[name]
    assert isinstance(experiment.decoder, DecoderConfig) and experiment.recipe.training.compile
    first, second, *_, last = experiment.decoder.blocks
    decoder = experiment.decoder.model_copy(update={"blocks": {first: 1, second: 1, last: 1}})
    names = result(pool, compiled_kernels, replace(experiment, decoder=decoder), 4)
    fused = " ".join(names)
    assert len(names) > 50 and "layer_norm" in fused and "backward" in fused


def test_kinds_of_steps_cover_a_run() -> None:
    experiments = load("paper", PARAMS).experiments
    assert step_kinds(experiments["cifar10_stylegan2_rtm"]) == {"step + R1": (0, 1 / 16), "step": (1, 15 / 16)}
    kinds = step_kinds(experiments["afhq_stylegan2_ada_rtm"])
    assert kinds == {"step + path + R1": (0, 1 / 16), "step": (1, 12 / 16), "step + path": (4, 3 / 16)}
