"""How long the planned trainings will take, judged by finished ones that differ only in mapper and seed."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from rtm.core.errors import UserError
from rtm.core.files import json_digest, read_numbers
from rtm.core.progress import rough_time
from rtm.lineage.job import Job, Stage
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import run_folder
from rtm.pipeline.amounts import counted
from rtm.pipeline.unfinished import step_of


def forecast(trainings: Sequence[Job], graph: Iterable[Job], ledger: Ledger, at_a_time: int) -> str:
    """A sentence with the expected time. Without a similar finished training, the hours in params/ are the limit."""
    known = _finished(graph)
    seconds = [_left(job, ledger) * median(known[kind]) for job in trainings if (kind := _kind(job)) in known]
    asked = [_left(job, ledger) * job.compute.hours * 3600 for job in trainings if _kind(job) not in known]
    parts = [f"{counted(len(trainings), 'training')} to do"]
    if seconds:
        parts += [f"{rough_time(sum(seconds))} (as similar finished ones took)"]
    if asked:
        parts += [f"{f'{len(asked)} of them ' if seconds else ''}at most {rough_time(sum(asked))} (by params/)"]
    if min(at_a_time, len(trainings)) > 1:
        at_once = max(*seconds, *asked, sum([*seconds, *asked]) / at_a_time)
        parts += [f"{rough_time(at_once)} with {at_a_time} at a time"]
    return f"{', '.join(parts)}; measurements come on top."


def _finished(graph: Iterable[Job]) -> dict[str, list[float]]:
    """The seconds of each finished training, by kind; machines are not distinguished."""
    found: dict[str, list[float]] = {}
    for job in graph:
        if job.stage is Stage.TRAIN and job.receipt.exists() and (seconds := _seconds(job.volatile[0])):
            found.setdefault(_kind(job), []).append(seconds)
    return found


def _seconds(curve: Path) -> float:
    """The seconds of all slices together; 0 if the curve is not here or is damaged."""
    with suppress(OSError, UserError):
        return max((row.get("seconds", 0.0) for row in read_numbers(curve)), default=0.0)
    return 0.0


def _kind(job: Job) -> str:
    return json_digest({key: value for key, value in job.params.items() if key not in ("mapper", "seed")})


def _left(job: Job, ledger: Ledger) -> float:
    """The share of the steps that are still to be done."""
    return 1 - min(step_of(run_folder(ledger, job)) / int(job.params["steps"]), 1.0)
