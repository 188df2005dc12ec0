"""`rtm doctor --gpu [EXPERIMENT]`: test in two minutes whether long trainings on a node will work, and how fast.
Without a GPU, the same checks run on the CPU, with gloo between two processes."""

import os
import platform
import shutil
import sysconfig
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from rtm.cli.doctor import Finding
from rtm.config import Config, Experiment
from rtm.core import distributed
from rtm.core.errors import UserError
from rtm.data.datasets import Images
from rtm.lineage.environment import driver
from rtm.methods.base import Setting
from rtm.methods.registry import build_method
from rtm.pipeline.devices import choose, unusable, usable_gpus
from rtm.plan.plan import cached
from rtm.training.assembly import weights_of
from rtm.training.loop import Run, resident_bytes

STEPS = 10
SIDE = 4096  # rows and columns of the multiplied matrices
MESSAGE = 2**24  # count of numbers that all processes add up


def examine(config: Config, name: str | None) -> Iterator[Finding]:
    """Yield each finding as soon as it is known."""
    experiment = config.experiment(name) if name else None
    gpus = usable_gpus()
    first = torch.device("cuda" if gpus else "cpu")
    yield _driver(gpus)
    for device in [torch.device("cuda", number) for number in range(gpus)] or [torch.device("cpu")]:
        yield _attempt(str(device), partial(_multiply, device))
    yield _toolkit()
    yield _attempt("compile", lambda: _compiled(first))
    yield _attempt("NCCL" if gpus else "gloo", lambda: _together(gpus or 2, use_gpu=gpus > 0))
    if experiment:
        yield from _rehearsed(config, experiment, first)


def _attempt(subject: str, call: Callable[[], str]) -> Finding:
    """The result of a check, or the first line of its failure."""
    try:
        return Finding(subject, True, call())
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
    software = f"torch {torch.__version__}, CUDA {torch.version.cuda}"
    return Finding("driver", True, f"{driver()}, {gpus} x {names}, {software}")


def _multiply(device: torch.device) -> str:
    """Multiply matrices of ones, because every entry of the product is known. Some virtual CPUs have no bfloat16."""
    side, dtype = (SIDE, torch.bfloat16) if device.type == "cuda" else (SIDE // 8, torch.float32)
    ones = torch.ones(side, side, device=device, dtype=dtype)
    seconds = _seconds(lambda: ones @ ones, device, times=20)
    if not bool(((ones @ ones) == side).all()):
        raise UserError("multiplies wrongly; report this GPU to the cluster's administrators and take another node.")
    speed = f"multiplies at {2e-12 * side**3 / seconds:.3g} TFLOP/s in {str(dtype).removeprefix('torch.')}"
    if device.type != "cuda":
        return speed
    free, total = torch.cuda.mem_get_info(device)
    if free < 0.9 * total:
        raise UserError(f"{free / 2**30:.0f} of {total / 2**30:.0f} GiB are free: another process uses this GPU.")
    return f"{speed}, {free / 2**30:.0f} of {total / 2**30:.0f} GiB free"


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


def _toolkit() -> Finding:
    """Whether the C compiler and headers are here that `compile: true` needs to build the launchers of kernels."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", "gcc"), "gcc", "cc"))), None)
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if not compiler:
        return Finding("toolkit", False, "no C compiler, which `compile: true` needs; load a gcc module or set CC")
    if not header.exists():
        return Finding("toolkit", False, f"{header} is missing, which `compile: true` needs; install python3-dev")
    return Finding("toolkit", True, f"{compiler}, Python.h of {platform.python_version()}")


def _compiled(device: torch.device) -> str:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2 + x

    x, began = torch.linspace(-1, 1, 1000, device=device), time.perf_counter()
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
    seconds = elastic_launch(config, _added)(use_gpu)
    speed = 4e-9 * MESSAGE / max(seconds.values())
    return f"{processes} processes add up {4e-6 * MESSAGE:.0f} MB at {speed:.3g} GB/s"


def _added(use_gpu: bool) -> float:
    device = distributed.start(use_gpu)
    try:
        choose(device)
        ones = torch.ones(MESSAGE, device=device)
        seconds = _seconds(lambda: dist.all_reduce(torch.ones_like(ones)), device, times=3)
        dist.all_reduce(ones)
        if not bool((ones == distributed.world()).all()):
            raise UserError("the processes add up wrongly; report this node to the cluster's administrators.")
        return seconds
    finally:
        distributed.stop()


def _rehearsed(config: Config, experiment: Experiment, device: torch.device) -> Iterator[Finding]:
    """Time real steps and a matching chunk of one process of a training, and compare them with the plan."""
    found: dict[str, float] = {}

    def steps() -> str:
        found.update(_measured(config, experiment, device))
        facts = [f"{STEPS} steps of {found['batch']:.0f} images, {1000 * found['step']:.3g} ms each"]
        if "chunk" in found:
            facts.append(f"a matching chunk in {1000 * found['chunk']:.3g} ms")
        return f"{', '.join(facts)}, peak {found['gib']:.2f} GiB, ready in {found['start']:.0f} s"

    yield _attempt("training", steps)
    if found:
        yield Finding("plan", *_planned(config, experiment))


def _measured(config: Config, experiment: Experiment, device: torch.device) -> dict[str, float]:
    began, short = time.perf_counter(), _shortened(experiment)
    batch, images = short.recipe.training.batch, config.layout.images(short.dataset_name)
    weights = weights_of(config.layout, short)
    if weights and not weights.exists():
        raise UserError(f"{weights} is missing; get it with `{config.fetching(weights.stem)}`.")
    given = Images(images) if images.exists() else Grey(short)
    setting = Setting(short, 0, given, weights, device)
    with tempfile.TemporaryDirectory() as folder:
        run = Run(build_method(setting), setting, Path(folder))

        def steps(first: int, count: int = 1) -> float:
            started = time.perf_counter()
            for run.done in range(first, first + count):
                run.method.step(run.done)
                run._update_ema()
            _wait(device)
            return time.perf_counter() - started

        steps(0)  # compiles and, for RS-IMLE, does the first matching round
        facts = {"start": time.perf_counter() - began, "step": steps(1, STEPS) / STEPS, "batch": float(batch)}
        if short.recipe.imle:  # an epoch begins with a round; here it has one chunk
            epoch = max(2, -(-(STEPS + 1) * batch // len(given)))
            facts["chunk"] = steps(-(-epoch * len(given) // batch)) - facts["step"]
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else resident_bytes()
    return facts | {"gib": peak / 2**30}


def _shortened(experiment: Experiment) -> Experiment:
    """The experiment with the batch of one process, a pool of one chunk, and a round in every epoch."""
    recipe, n = experiment.recipe, experiment.dataset.count
    batch = recipe.training.batch // max(1, recipe.resources.processes or recipe.resources.gpus)
    changes: dict[str, Any] = {"training": recipe.training.model_copy(update={"batch": batch})}
    if imle := recipe.imle:
        pool = (imle.chunk - 0.5) / n
        changes["imle"] = imle.model_copy(update={"pool": pool, "refresh": 1, "adaptive": None})
    return replace(experiment, recipe=recipe.model_copy(update=changes))


class Grey(Images):
    """Grey images, as many as the dataset has: the speed does not depend on the content."""

    def __init__(self, experiment: Experiment) -> None:
        size = experiment.dataset.resolution
        self.pixels = np.broadcast_to(np.uint8(128), (experiment.dataset.count, size, size, 3))
        self.labels = np.zeros(experiment.dataset.count, np.int64) if experiment.dataset.classes else None
        self.sha256 = ""

    def refuse_changed(self) -> None:
        """Nothing to check, because there is no file."""


def _planned(config: Config, experiment: Experiment) -> tuple[bool, str]:
    """The same numbers from `rtm plan`, if it was run before."""
    plan = cached(config, experiment.name)
    if plan is None:
        return False, f"none yet; `rtm plan {experiment.name}` makes one"
    step, memory = 1000 * plan.step_seconds, plan.peak / 2**30
    chunk = 1000 * plan.round_seconds / plan.rehearsal.chunks if plan.round_seconds else None
    matching = "" if chunk is None else f", a matching chunk in {chunk:.3g} ms"
    return True, f"a step in {step:.3g} ms{matching}, peak {memory:.2f} GiB on {plan.device.title}"
