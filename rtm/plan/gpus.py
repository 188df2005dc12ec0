"""Whether long trainings will work on the GPUs of this machine, and how fast. Without a GPU, the same tests run on the
CPU, with gloo between two processes."""

import os
import platform
import shutil
import sysconfig
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from rtm.config import Config, Experiment
from rtm.core import distributed
from rtm.core.devices import driver
from rtm.core.errors import UserError
from rtm.plan.machine import Finding
from rtm.plan.planner import Planner
from rtm.plan.tally import GIB
from rtm.stages.network import Network
from rtm.training.devices import choose, unusable, usable_gpus
from rtm.training.rehearsal import STEPS, share_of_a_process, time_steps

SIDE = 4096  # rows and columns of the multiplied matrices
MESSAGE = 2**24  # count of numbers that all processes add up


def examine_gpus(config: Config, name: str) -> Iterator[Finding]:
    """Yield each finding as soon as it is known; with the name of an experiment, its training and its plan, too."""
    experiment = config.experiment(name) if name else None
    gpus = usable_gpus()
    devices = [torch.device("cuda", number) for number in range(gpus)] or [torch.device("cpu")]
    yield _driver(gpus)
    for device in devices:
        yield attempt(str(device), partial(_multiply, device))
    yield toolkit()
    yield attempt("compile", partial(_compiled, devices[0]))
    yield attempt("NCCL" if gpus else "gloo", partial(_together, gpus or 2, gpus > 0))
    if experiment is None:
        return
    trained = attempt("training", partial(training, config, experiment, devices[0]))
    yield trained
    if trained.good:
        yield _planned(config, name)


def _planned(config: Config, name: str) -> Finding:
    """What the plan says, to compare with what was measured."""
    plan = Planner(config).counted(name)
    if plan is None:
        return Finding("plan", False, f"none yet; `rtm plan {name}` makes one")
    speed = _speed(plan.step_seconds, plan.chunk_seconds, plan.peak)
    return Finding("plan", True, f"{speed} on {plan.device.title}")


def _speed(step: float, chunk: float | None, peak: float) -> str:
    facts = [f"a step in {1000 * step:.3g} ms"]
    if chunk is not None:
        facts.append(f"a matching chunk in {1000 * chunk:.3g} ms")
    facts.append(f"peak {peak / GIB:.2f} GiB")
    return ", ".join(facts)


def attempt(subject: str, test: Callable[[], str]) -> Finding:
    """The result of a test, or the first line of its failure."""
    try:
        return Finding(subject, True, test())
    except UserError as error:
        return Finding(subject, False, str(error))
    except Exception as error:  # drivers, compilers and networks may raise any exception
        lines = str(error).strip().splitlines() or [""]
        return Finding(subject, False, f"fails: {type(error).__name__}: {lines[0]}")


def _driver(gpus: int) -> Finding:
    if problem := unusable():
        return Finding("driver", False, problem)
    if not gpus:
        return Finding("driver", False, f"no GPU here; torch {torch.__version__}, the CPU stands in for it below")
    names = ", ".join(sorted({torch.cuda.get_device_name(number) for number in range(gpus)}))
    return Finding(
        "driver", True, f"{driver()}, {gpus} x {names}, torch {torch.__version__}, CUDA {torch.version.cuda}"
    )


def _multiply(device: torch.device) -> str:
    """Multiply matrices of ones, because every entry of the product is known. Some virtual CPUs have no bfloat16."""
    on_gpu = device.type == "cuda"
    side = SIDE if on_gpu else SIDE // 8
    dtype = torch.bfloat16 if on_gpu else torch.float32
    ones = torch.ones(side, side, device=device, dtype=dtype)
    seconds = _seconds(lambda: ones @ ones, device, times=20)
    is_right = ones @ ones == side
    if not bool(is_right.all()):
        raise UserError("multiplies wrongly; report this GPU to the cluster's administrators and take another node.")
    speed = f"multiplies at {2e-12 * side**3 / seconds:.3g} TFLOP/s in {str(dtype).removeprefix('torch.')}"
    if not on_gpu:
        return speed
    free, total = torch.cuda.mem_get_info(device)
    memory = f"{free / GIB:.0f} of {total / GIB:.0f} GiB"
    if free < 0.9 * total:
        raise UserError(f"{memory} are free: another process uses this GPU.")
    return f"{speed}, {memory} free"


def _seconds(call: Callable[[], Any], device: torch.device, times: int) -> float:
    call()
    _wait(device)
    began = time.perf_counter()
    for _ in range(times):
        call()
    _wait(device)
    return (time.perf_counter() - began) / times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def toolkit() -> Finding:
    """Whether the C compiler and headers are here that `compile: true` needs to build the launchers of kernels."""
    names = (os.environ.get("CC", "gcc"), "gcc", "cc")
    compiler = next(filter(None, map(shutil.which, names)), None)
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not compiler:
        return Finding("toolkit", False, "no C compiler, which `compile: true` needs; load a gcc module or set CC")
    if not header.exists():
        return Finding("toolkit", False, f"{header} is missing, which `compile: true` needs; install python3-dev")
    return Finding("toolkit", True, f"{compiler}, Python.h of {platform.python_version()}")


def _compiled(device: torch.device) -> str:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2 + x

    x = torch.linspace(-1, 1, 1000, device=device)
    began = time.perf_counter()
    torch.testing.assert_close(torch.compile(function, dynamic=False)(x), function(x))
    return f"a kernel in {time.perf_counter() - began:.1f} s"


def _together(processes: int, use_gpu: bool) -> str:
    """Compute a sum over processes, which are started like the processes of a training."""
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        max_restarts=0,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="127.0.0.1",
        run_id=uuid.uuid4().hex,
    )
    seconds = elastic_launch(config, _sum_of_all)(use_gpu, MESSAGE)
    speed = 4e-9 * MESSAGE / max(seconds.values())
    return f"{processes} processes add up {4e-6 * MESSAGE:.0f} MB at {speed:.3g} GB/s"


def _sum_of_all(use_gpu: bool, size: int) -> float:
    device = distributed.start(use_gpu)
    try:
        choose(device)
        ones = torch.ones(size, device=device)
        seconds = _seconds(lambda: dist.all_reduce(torch.ones_like(ones)), device, times=3)
        dist.all_reduce(ones)
        if not bool((ones == distributed.world()).all()):
            raise UserError("the processes add up wrongly; report this node to the cluster's administrators.")
        return seconds
    finally:
        distributed.stop()


def training(config: Config, experiment: Experiment, device: torch.device) -> str:
    """Time real steps and a matching chunk of one process of a training."""
    imle = experiment.recipe.imle
    space = imle.perceptual if imle else None
    weights = Network().of(config, space).first if isinstance(space, str) else None
    if weights and not weights.exists():
        raise UserError(f"{weights} is missing; get it with `{config.fetching(weights.stem)}`.")
    short = share_of_a_process(experiment)
    timing = time_steps(short, weights, device)
    speed = _speed(timing.step, timing.chunk, timing.peak)
    return f"{STEPS} steps of {short.recipe.training.batch} images: {speed}, ready in {timing.start:.0f} s"
