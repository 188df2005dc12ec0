"""The state of every training, from run folders, receipts and SLURM's queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from rtm.config import Config, Experiment
from rtm.lineage.begun import run_folder
from rtm.lineage.freshness import Freshness, State
from rtm.pipeline.slurm import Queued, comment, waiting_jobs
from rtm.stages.base import Job
from rtm.stages.train import Train
from rtm.training.folder import History, history_of, is_running, log_rows

LOG = "log.jsonl"
TAIL = 1 << 14  # bytes at the end of a log, about fifty lines, for the speed


@dataclass(frozen=True)
class RunStatus:
    """One seed of an experiment."""

    experiment: str
    seed: int
    state: Literal["done", "changed", "running", "waiting", "failed"]  # changed: its files differ from the receipt
    step: int
    total: int
    speed: float | None = None  # steps a second
    remaining: float | None = None  # seconds of training
    gpu_hours: float = 0.0  # all slices together
    job: str | None = None  # of SLURM
    host: str | None = None
    losses: Mapping[str, float] = field(default_factory=dict)
    log: Path | None = None  # log.jsonl of the run
    reason: str = ""  # the reason why SLURM lets it wait


def statuses(config: Config) -> list[RunStatus]:
    freshness = Freshness()
    running_last = sorted(waiting_jobs(), key=lambda queued: queued.state == "RUNNING")
    queue = {queued.comment: queued for queued in running_last}
    runs = []
    for experiment in config.experiments.values():
        for seed in experiment.seeds:
            job = Train().job(config, experiment=experiment.name, seed=seed)
            queued = queue.get(comment(job))
            folder = run_folder(job, freshness.parts(job))
            run = _logged(experiment, seed, folder)
            if freshness.state(job) is State.STALE:
                runs.append(_unfinished(run, folder, queued))
            else:
                runs.append(_finished(run, job, freshness))
    return runs


def _logged(experiment: Experiment, seed: int, folder: Path) -> RunStatus:
    """What the end of the log says."""
    rows = log_rows(folder / LOG, TAIL)
    last = rows[-1] if rows else {}
    return RunStatus(
        experiment=experiment.name,
        seed=seed,
        state="waiting",
        step=last.get("step", 0),
        total=experiment.steps(),
        speed=_speed(rows),
        losses={name: value for name, value in last.items() if name.startswith("loss")},
        log=folder / LOG if rows else None,
    )


def _finished(run: RunStatus, job: Job, freshness: Freshness) -> RunStatus:
    made = (freshness.receipt(job) or {}).get("made", {})
    return replace(
        run,
        state="changed" if freshness.state(job) is State.CHANGED else "done",
        step=run.total,
        remaining=0.0,
        gpu_hours=made.get("gpu_hours", 0.0),
        job=made.get("slurm_job"),
        host=made.get("host"),
    )


def _unfinished(run: RunStatus, folder: Path, queued: Queued | None) -> RunStatus:
    history = history_of(folder)
    run = replace(run, state=_state(history, folder, queued))
    if run.speed:
        run = replace(run, remaining=(run.total - run.step) / run.speed)
    if history:
        last = history.slices[-1]
        run = replace(run, gpu_hours=history.gpu_hours, job=last.job, host=last.host)
    if queued:
        reason = queued.reason if queued.state == "PENDING" and queued.reason != "None" else ""
        run = replace(run, job=queued.id, reason=reason)
    return run


def _state(history: History | None, folder: Path, queued: Queued | None) -> Literal["running", "waiting", "failed"]:
    if is_running(folder):
        return "running"
    if queued:
        return "running" if queued.state == "RUNNING" else "waiting"
    is_whole = history is None or history.slices[-1].ended in ("stopped", "done")
    return "waiting" if is_whole else "failed"


def _speed(rows: list[dict[str, Any]]) -> float | None:
    """Steps a second since the last resumption in these rows."""
    recent: list[dict[str, Any]] = []
    for row in rows:
        if recent and row["step"] <= recent[-1]["step"]:
            recent = []
        recent.append(row)
    if not recent:
        return None
    first = recent[0]
    last = recent[-1]
    seconds = last["seconds"] - first["seconds"]
    return (last["step"] - first["step"]) / seconds if seconds > 0 else None
