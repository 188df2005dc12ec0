"""The states of trainings in runs/, and which of them nothing needs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rtm.lineage.begun import run_folder
from rtm.lineage.freshness import Freshness, State
from rtm.stages.base import Job
from rtm.stages.graph import every_job
from rtm.training.folder import history_of, is_running, step_of

Kind = Literal["being trained", "unfinished", "finished", "not recorded", "orphaned"]


@dataclass(frozen=True)
class RunState:
    folder: Path
    seed: int | None
    kind: Kind
    step: int
    size: int
    age: float  # seconds since the last write


def states() -> Iterator[RunState]:
    freshness = Freshness()
    trainings = [job for job in every_job().values() if job.stage.name == "train"]
    by_folder = {run_folder(job, freshness.parts(job)): job for job in trainings}
    for root in sorted({job.root for job in trainings}):
        for folder in sorted(Path(root).glob("runs/*/*/")):
            yield _state(folder, by_folder.get(folder), freshness)
    freshness.hashes.save()


def _state(folder: Path, job: Job | None, freshness: Freshness) -> RunState:
    history = history_of(folder)
    stats = [path.stat() for path in folder.rglob("*") if path.is_file()]
    written = max((stat.st_mtime for stat in stats), default=folder.stat().st_mtime)
    return RunState(
        folder=folder,
        seed=history.seed if history else None,
        kind=_kind(folder, job, freshness),
        step=step_of(folder),
        size=sum(stat.st_size for stat in stats),
        age=max(0.0, time.time() - written),
    )


def _kind(folder: Path, job: Job | None, freshness: Freshness) -> Kind:
    if is_running(folder):
        return "being trained"
    if job is None:
        return "orphaned"
    if freshness.state(job) is State.FRESH:
        return "finished"
    history = history_of(folder)
    return "not recorded" if history and history.is_finished else "unfinished"
