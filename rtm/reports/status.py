"""The state of every training, from run folders, receipts and SLURM's queue."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rtm.config import Config, Experiment
from rtm.core.layout import Layout
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger, State
from rtm.pipeline.graph import jobs
from rtm.pipeline.runs import Book, book_of, is_running, log_rows
from rtm.pipeline.slurm import Queued, comment, waiting_jobs

TAIL = 1 << 14  # bytes at the end of a log, about fifty lines, for the speed


@dataclass(frozen=True)
class RunStatus:
    """One seed of an experiment."""

    experiment: str
    seed: int
    state: Literal["done", "changed", "running", "waiting", "failed"]  # changed: its files differ from the receipt
    step: int
    total: int
    speed: float | None  # steps a second
    remaining: float | None  # seconds of training
    gpu_hours: float  # all slices together
    job: str | None  # of SLURM
    host: str | None
    losses: dict[str, float]
    log: Path | None  # log.jsonl of the run
    reason: str = ""  # the reason why SLURM lets it wait


def statuses(config: Config) -> list[RunStatus]:
    graph, ledger = jobs(config), Ledger()
    queue = {job.comment: job for job in sorted(waiting_jobs(), key=lambda job: job.state == "RUNNING")}
    found = []
    for experiment in config.experiments.values():
        for seed in experiment.seeds:
            job = graph[f"train/{experiment.name}/seed{seed}"]
            in_queue = queue.get(comment("train", job.root, experiment.name, seed))
            folder = _folder(config.layout, experiment.name, seed, ledger.fingerprint(job))
            found.append(_status(experiment, seed, job, ledger, folder, in_queue))
    return found


def _folder(layout: Layout, experiment: str, seed: int, fingerprint: str) -> Path | None:
    """The folder of the run with the present parameters and code; if there is none, of another run of this seed that is
    being trained."""
    present = layout.run(experiment, fingerprint)
    if (present / "run.json").exists():
        return present
    others = sorted(present.parent.glob("*/run.json"))
    running = (path.parent for path in others if is_running(path.parent))
    return next((folder for folder in running if (book := book_of(folder)) and book.seed == seed), None)


def _status(
    experiment: Experiment, seed: int, job: Job, ledger: Ledger, folder: Path | None, in_queue: Queued | None
) -> RunStatus:
    recorded = ledger.state(job)
    done = recorded is not State.STALE
    made: dict[str, Any] = (ledger.receipt(job) or {}).get("made", {}) if done else {}
    book = book_of(folder) if folder else None
    rows = log_rows(folder / "log.jsonl", TAIL) if folder else []
    total, speed = experiment.steps(), _speed(rows)
    step = total if done else rows[-1]["step"] if rows else 0
    last = book.slices[-1] if book else None
    return RunStatus(
        experiment=experiment.name,
        seed=seed,
        state="changed" if recorded is State.CHANGED else "done" if done else _state(book, folder, in_queue),
        step=step,
        total=total,
        speed=speed,
        remaining=0.0 if done else (total - step) / speed if speed else None,
        gpu_hours=made.get("gpu_hours", book.gpu_hours if book else 0.0),
        job=in_queue.id if in_queue else made.get("slurm_job", last and last.job),
        host=made.get("host", last and last.host),
        losses={name: value for name, value in (rows[-1] if rows else {}).items() if name.startswith("loss")},
        log=folder / "log.jsonl" if folder and rows else None,
        reason=in_queue.reason if in_queue and in_queue.state == "PENDING" and in_queue.reason != "None" else "",
    )


def _state(book: Book | None, folder: Path | None, in_queue: Queued | None) -> Literal["running", "waiting", "failed"]:
    if folder and is_running(folder):
        return "running"
    if in_queue:
        return "running" if in_queue.state == "RUNNING" else "waiting"
    return "failed" if book and book.slices[-1].ended not in ("stopped", "done") else "waiting"


def _speed(rows: list[dict[str, Any]]) -> float | None:
    """Steps a second since the last resumption in these rows."""
    start = max((at for at in range(1, len(rows)) if rows[at]["step"] <= rows[at - 1]["step"]), default=0)
    recent = rows[start:]
    seconds = recent[-1]["seconds"] - recent[0]["seconds"] if recent else 0.0
    return (recent[-1]["step"] - recent[0]["step"]) / seconds if seconds > 0 else None


def short(count: int) -> str:
    """A count in at most five characters: 950, 12.3k, 1.17M."""
    return str(count) if count < 1000 else f"{count / 1e3:.3g}k" if count < 999_500 else f"{count / 1e6:.3g}M"


def duration(seconds: float) -> str:
    """A time as text: 12d4h, 3h20m, 5m10s, 7s."""
    for unit, size, below, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60), ("m", 60, "s", 1)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}{int(seconds % size // part)}{below}"
    return f"{seconds:.0f}s"
