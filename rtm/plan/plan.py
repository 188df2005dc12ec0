"""Plans of trainings. Each is rehearsed in a separate process, once for all experiments with the same cost, and cached.

The cache is under .snakemake/, which git ignores. A file's name is a hash of everything that the cost depends on:
sizes, the number of processes, and the code of the training and of the rehearsal.
"""

import hashlib
import multiprocessing
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rtm.config import Config, Experiment
from rtm.config.devices import Device
from rtm.config.loading import pick
from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE, json_digest, read_json, write_json
from rtm.core.progress import progress
from rtm.lineage.receipts import Ledger
from rtm.pipeline.graph import jobs
from rtm.plan.driver import preloaded
from rtm.plan.estimate import Plan
from rtm.plan.tally import Rehearsal, chunk_count

KEPT = Path(".snakemake/rtm/plan")
# the parameters that do not change the cost of a training
FREE_OF_COST = {
    "training": {"epochs", "steps", "lr", "betas", "weight_decay", "warmup", "decay", "decay_epochs", "ema", "ema_ramp",
                 "compile", "save_every", "grid_every", "watch", "loggers"},
    "imle": {"pool", "refresh", "stagger", "perturb", "mse"},  # these count only through the number of chunks
    "stylegan2": {"ema_kimg", "ema_ramp", "select", "select_every", "select_protocol"},
}  # fmt: skip


class Planner:
    """Plans for experiments of one scale on a device."""

    def __init__(self, config: Config, gpu: str | None = None, gpus: int | None = None) -> None:
        self.config, self.gpu, self.gpus = config, gpu, gpus
        self.known = {**config.experiments, **config.planned}
        self.problems: list[str] = []  # reasons why experiments have no plan
        self._ledger = Ledger()
        self._jobs = jobs(replace(config, experiments=self.known))

    def plans(self, names: Iterable[str]) -> list[Plan]:
        """A plan for each experiment, in this order. If one cannot be planned, `problems` has the reason."""
        wanted = {name: pick(self.known, name, "experiment") for name in names}
        keys = {name: self._key(experiment) for name, experiment in wanted.items()}
        found = {key: rehearsal for key in set(keys.values()) if (rehearsal := _kept(key))}
        missing = {key: wanted[name] for name, key in keys.items() if key not in found}
        found |= self._rehearsed(missing)
        if not found:
            raise UserError(self.problems[0])
        planned = {name: each for name, each in wanted.items() if keys[name] in found}
        return [Plan(each, found[keys[name]], self._device(each)) for name, each in planned.items()]

    def cached(self, name: str) -> Plan | None:
        """The plan of an experiment, if it was rehearsed before."""
        experiment = pick(self.known, name, "experiment")
        rehearsal = _kept(self._key(experiment))
        return Plan(experiment, rehearsal, self._device(experiment)) if rehearsal else None

    def _device(self, experiment: Experiment) -> Device:
        return pick(self.config.params.devices, self.gpu or experiment.recipe.resources.gpu_model, "device")

    def _world(self, experiment: Experiment) -> int:
        resources = experiment.recipe.resources
        world = self.gpus or resources.processes or resources.gpus or 1
        if experiment.recipe.training.batch % world:
            raise UserError(
                f"{experiment.name} has a batch of {experiment.recipe.training.batch}, which {world} GPUs cannot share "
                "evenly; choose another number with --gpus."
            )
        return world

    def _key(self, experiment: Experiment) -> str:
        job = self._jobs[f"train/{experiment.name}/seed{experiment.seeds[0]}"]
        world, code = self._world(experiment), [self._ledger.parts(job)["code"], _own_code(), version("torch")]
        sizes = [_costly(experiment), world, chunk_count(experiment, world), code]
        return json_digest(sizes)[:32]

    def _rehearsed(self, missing: dict[str, Experiment]) -> dict[str, Rehearsal]:
        if not missing:
            return {}
        found: dict[str, Rehearsal] = {}
        workers = min(os.cpu_count() or 1, len(missing))
        shown = progress("rehearse on a pretended GPU", len(missing))
        with preloaded(KEPT), ProcessPoolExecutor(workers, _spawning(), _quiet) as pool, shown as report:
            running = {pool.submit(_rehearse, each, self._world(each)): key for key, each in missing.items()}
            for future in as_completed(running):
                key = running[future]
                try:
                    found[key] = future.result()
                except UserError as problem:  # the other experiments can still be planned
                    self.problems.append(str(problem))
                    continue
                with suppress(OSError):  # without a cache file, the plan is made again next time
                    write_json(_file(key), found[key].to_json())
                report(len(found))
        return found


def cached(config: Config, name: str) -> Plan | None:
    """The cached plan of an experiment with its recipe's GPUs, if there is one."""
    return Planner(config).cached(name)


def _costly(experiment: Experiment) -> dict[str, Any]:
    """The parameters that its cost depends on."""
    recipe = experiment.recipe.model_dump(mode="json", exclude={"dataset", "decoder", "evaluation", "resources"})
    for section, free in FREE_OF_COST.items():
        recipe[section] = recipe[section] and {k: v for k, v in recipe[section].items() if k not in free}
    decoder, dataset = experiment.decoder, experiment.dataset
    sizes = {"images": dataset.count, "resolution": dataset.resolution, "classes": dataset.classes}
    mapper = experiment.mapper.model_dump(mode="json")
    return {**recipe, "mapper": mapper, "decoder": decoder and decoder.model_dump(mode="json"), **sizes}


def _own_code() -> str:
    """A hash of the modules that make a rehearsal."""
    texts = [Path(__file__).with_name(f"{name}.py").read_bytes() for name in ("pretend", "rehearsal", "tally")]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


def _file(key: str) -> Path:
    return KEPT / f"{key}.json"


def _kept(key: str) -> Rehearsal | None:
    with suppress(*UNREADABLE, UserError):  # the file is absent, or has an older format
        return Rehearsal.from_json(read_json(_file(key)))
    return None


def _spawning() -> multiprocessing.context.SpawnContext:
    return multiprocessing.get_context("spawn")


def _quiet() -> None:
    """Hide the progress and the warnings of a rehearsal."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    os.environ.pop("LD_PRELOAD", None)


def _rehearse(experiment: Experiment, world: int) -> Rehearsal:
    import torch

    from rtm.plan.rehearsal import rehearse

    torch.set_num_threads(1)
    try:
        return rehearse(experiment, world)
    except Exception as error:  # torch and the user's classes may raise any exception
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UserError(f"{experiment.name} cannot be rehearsed on a pretended GPU: {reason}") from None
