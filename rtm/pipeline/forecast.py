"""How long the planned trainings will take, judged by finished ones that differ only in mapper and seed."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from rtm.core.errors import UserError
from rtm.core.files import json_digest
from rtm.core.progress import rough_time
from rtm.core.readers import read_numbers
from rtm.lineage.begun import run_folder
from rtm.lineage.freshness import Freshness
from rtm.pipeline.amounts import counted
from rtm.stages.base import Job
from rtm.training.folder import step_of


def forecast(trainings: Sequence[Job], graph: Iterable[Job], freshness: Freshness, at_a_time: int) -> str:
    """A sentence with the expected time. Without a similar finished training, the hours in params/ are the limit."""
    finished = _seconds_by_kind(graph)
    seconds = []
    limits = []
    for job in trainings:
        share = _share_to_do(job, freshness)
        if _kind(job) in finished:
            seconds.append(share * median(finished[_kind(job)]))
        else:
            limits.append(share * job.cost.hours * 3600)
    parts = [f"{counted(len(trainings), 'training')} to do"]
    if seconds:
        parts += [f"{rough_time(sum(seconds))} (as similar finished ones took)"]
    if limits:
        number = f"{len(limits)} of them " if seconds else ""
        parts += [f"{number}at most {rough_time(sum(limits))} (by params/)"]
    if min(at_a_time, len(trainings)) > 1:
        each = [*seconds, *limits]
        at_once = max(*each, sum(each) / at_a_time)
        parts += [f"{rough_time(at_once)} with {at_a_time} at a time"]
    return f"{', '.join(parts)}; measurements come on top."


def _seconds_by_kind(graph: Iterable[Job]) -> dict[str, list[float]]:
    """The seconds of each finished training, by kind; machines are not distinguished."""
    by_kind: dict[str, list[float]] = {}
    for job in graph:
        is_finished = job.stage.name == "train" and job.receipt.exists()
        if is_finished and (seconds := _seconds(job.outputs["curve"])):
            by_kind.setdefault(_kind(job), []).append(seconds)
    return by_kind


def _seconds(curve: Path) -> float:
    """The seconds of all slices together; 0 if the curve is not here or is damaged."""
    with suppress(OSError, UserError):
        return max((row.get("seconds", 0.0) for row in read_numbers(curve)), default=0.0)
    return 0.0


def _kind(job: Job) -> str:
    values = dict(job.values)
    del values["mapper"], values["seed"]
    return json_digest(values)


def _share_to_do(job: Job, freshness: Freshness) -> float:
    step = step_of(run_folder(job, freshness.parts(job)))
    return 1 - min(step / int(job.values["steps"]), 1.0)
