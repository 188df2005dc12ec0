"""Plans of trainings. Each cost is counted in a process of its own, once for all experiments that are alike.

Counted costs are kept under .snakemake/, which git ignores. A file's name is a hash of the experiment's values, the
number of processes, and the code that trains and counts.
"""

import hashlib
import multiprocessing
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter

import rtm
from rtm.config import Config, Experiment
from rtm.config.devices import Device
from rtm.config.parameters import pick
from rtm.core.errors import UserError
from rtm.core.files import json_digest, write_json
from rtm.core.progress import progress
from rtm.core.readers import read_json
from rtm.plan.estimate import Estimate
from rtm.plan.tally import Cost

FOLDER = Path(".snakemake/rtm/plan")
FORMAT = TypeAdapter(Cost)
ROOMS = ("core", "data", "models", "methods", "training", "plan")  # the code on which a cost depends
NO_COST = {"dataset", "decoder", "evaluation", "resources"}  # parts of a recipe; the first two count by their values


class Planner:
    """Plans for experiments of one scale on a device."""

    def __init__(self, config: Config, gpu: str | None = None, gpus: int | None = None) -> None:
        self.config = config
        self.gpu = gpu
        self.gpus = gpus
        self.experiments = {**config.experiments, **config.planned}
        self.problems: list[str] = []  # reasons why experiments have no plan

    def plans(self, names: Iterable[str]) -> list[Estimate]:
        """A plan for each experiment, in this order. If one cannot be planned, `problems` has the reason."""
        experiments = [pick(self.experiments, name, "experiment") for name in names]
        devices = {experiment.name: self._device(experiment) for experiment in experiments}
        costs: dict[Path, Cost] = {}
        missing: dict[Path, Experiment] = {}
        for experiment in experiments:
            file = self._file(experiment)
            if cost := _read(file):
                costs[file] = cost
            else:
                missing[file] = experiment
        costs |= self._count(missing)
        if not costs:
            raise UserError(self.problems[0])
        counted = [(experiment, costs.get(self._file(experiment))) for experiment in experiments]
        return [Estimate(experiment, cost, devices[experiment.name]) for experiment, cost in counted if cost]

    def counted(self, name: str) -> Estimate | None:
        """The plan of an experiment, if its cost was counted before."""
        experiment = pick(self.experiments, name, "experiment")
        cost = _read(self._file(experiment))
        return Estimate(experiment, cost, self._device(experiment)) if cost else None

    def _device(self, experiment: Experiment) -> Device:
        return pick(self.config.params.devices, self.gpu or experiment.recipe.resources.gpu_model, "device")

    def _world(self, experiment: Experiment) -> int:
        resources = experiment.recipe.resources
        batch = experiment.recipe.training.batch
        world = self.gpus or resources.processes or resources.gpus or 1
        if batch % world:
            raise UserError(
                f"{experiment.name} has a batch of {batch}, which {world} GPUs cannot share evenly; choose another "
                "number with --gpus."
            )
        return world

    def _file(self, experiment: Experiment) -> Path:
        dataset = experiment.dataset
        values = {
            "recipe": experiment.recipe.model_dump(mode="json", exclude=NO_COST),
            "mapper": experiment.mapper.model_dump(mode="json"),
            "decoder": experiment.decoder and experiment.decoder.model_dump(mode="json"),
            "dataset": [dataset.count, dataset.resolution, dataset.classes],
            "processes": self._world(experiment),
            "code": [_code(), version("torch")],
        }
        return FOLDER / f"{json_digest(values)[:32]}.json"

    def _count(self, missing: dict[Path, Experiment]) -> dict[Path, Cost]:
        if not missing:
            return {}
        costs: dict[Path, Cost] = {}
        workers = min(os.cpu_count() or 1, len(missing))
        spawn = multiprocessing.get_context("spawn")
        bar = progress("count operations", len(missing))
        with ProcessPoolExecutor(workers, spawn, _quiet) as pool, bar as report:
            running = {pool.submit(_cost, one, self._world(one)): file for file, one in missing.items()}
            for future in as_completed(running):
                file = running[future]
                try:
                    costs[file] = future.result()
                except UserError as problem:  # the other experiments can still be planned
                    self.problems.append(str(problem))
                    continue
                with suppress(OSError):  # without a file, it is counted again next time
                    write_json(file, FORMAT.dump_python(costs[file], mode="json"))
                report(len(costs))
        return costs


@cache
def _code() -> str:
    """A hash of the code on which a cost depends."""
    root = Path(rtm.__file__).parent
    files = [file for room in ROOMS for file in sorted((root / room).rglob("*.py"))]
    sources = [file.read_bytes() for file in files]
    return hashlib.sha256(b"\0".join(sources)).hexdigest()


def _read(file: Path) -> Cost | None:
    with suppress(UserError):  # the file is absent, or has an older format
        cost: Cost = read_json(file, Cost)
        return cost
    return None


def _quiet() -> None:
    """Hide the progress and the warnings of a rehearsal."""
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _cost(experiment: Experiment, world: int) -> Cost:
    import torch

    from rtm.plan.rehearsal import count_cost

    torch.set_num_threads(1)
    try:
        return count_cost(experiment, world)
    except Exception as error:  # torch and the user's classes may raise any exception
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"The cost of {experiment.name} cannot be counted without a GPU: {reason}") from None
