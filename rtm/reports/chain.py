"""The chain behind a number: each link from its metrics file to the data, and whether it changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtm.config import Config
from rtm.config.reports import CellSpec
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.readers import read_json
from rtm.lineage.freshness import Freshness
from rtm.lineage.freshness import State as JobState
from rtm.lineage.history import changed_code
from rtm.lineage.receipts import JSON
from rtm.reports.cells import Cell, Sheet, State
from rtm.reports.notes import not_computed
from rtm.reports.summary import evaluating, measuring_jobs
from rtm.stages.base import Job

KINDS = {"evaluate": "metrics", "latency": "latency", "train": "checkpoint"}  # the jobs of one seed
EACH = "The mean of the rows above; each row has its own chain."
MEANS: Mapping[State, str] = {
    "measured": EACH,
    "evaluated": EACH,
    "published": "The mean of the published rows above, computed here.",
    "missing": "No mean: not all rows above are measured.",
    "unreported": "No mean: not all rows above are reported.",
}


@dataclass(frozen=True)
class Link:
    kind: str  # metrics, checkpoint, parameters, ...
    what: str
    digest: str = ""
    changes: tuple[str, ...] = ()  # changes since the number was made
    unchanged: str = "unchanged"  # the text without changes; "" for facts that cannot change
    seed: int | None = None  # None: for all seeds

    @property
    def state(self) -> str:
        return "; ".join(self.changes) or self.unchanged


class Chains:
    """The chains of a scale's cells. Receipts and files are read once."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.freshness = Freshness()

    def changed(self, job: Job) -> bool:
        """Whether the inputs or files of a table or figure changed since it was made."""
        is_changed = self.freshness.state(job) in (JobState.STALE, JobState.CHANGED)
        return self.freshness.receipt(job) is not None and is_changed

    def origin(self, sheet: Sheet, cell: Cell) -> str:
        """A sentence about the origin of the cell's number."""
        part = cell.part
        if part.published:
            entry = self.config.params.published[part.published]
            origin = "Published, not measured here" if cell.state == "published" else "Not reported by its source"
            reference = f" {entry.reference}." if entry.reference else ""
            return f"{origin}: {entry.source}.{reference}"
        if not cell.measurable:
            return MEANS[cell.state]
        if cell.value is None:
            return _gap(sheet, cell)
        if part.measured:
            return f"Measured here on images that others generated: {part.measured}."
        seeds = len(self.config.experiment(str(part.experiment)).seeds)
        return f"Measured here: mean ± standard deviation over {seeds} seeds." if cell.spread else "Measured here."

    def of(self, part: CellSpec) -> list[Link]:
        """The chain of a measured cell, from the metrics to the data; a job without a receipt is an error."""
        if part.experiment is None:
            return _evaluated(Path(str(part.measured)))
        links: list[Link] = []
        shared: dict[str, Job] = {}
        for measuring in measuring_jobs(self.config, part):
            seed = int(measuring.names.get("seed", measuring.experiment.seeds[0]))
            for job in reversed(list(measuring.upstream())):
                if job.stage.name in KINDS:
                    links += [replace(link, seed=seed) for link in self._of_a_seed(job)]
                else:
                    shared[job.id] = job
        for job in shared.values():
            changes = self.freshness.changes(job, self._receipt(job))
            links.append(self._file(job, changes))
        return links

    def _of_a_seed(self, job: Job) -> list[Link]:
        receipt = self._receipt(job)
        made = receipt["made"]
        values = self.freshness.changed_values(job, receipt)
        code = [] if self.freshness.is_same_code(job, receipt["parts"]["code"]) else [changed_code(job, receipt)]
        return [
            self._file(job, []),
            Link("parameters", f"fingerprint {receipt['fingerprint'][:16]}", changes=tuple(values)),
            Link("code", f"revision {made.get('revision') or 'unknown'}", changes=tuple(code)),
            Link("made", _made(made), unchanged=""),
        ]

    def _file(self, job: Job, changes: list[str]) -> Link:
        """The link of a job's file, with its own changes and the given ones."""
        file = str(job.first)
        kind = KINDS.get(job.stage.name, job.stage.name)
        recorded = self._receipt(job)["outputs"].get(file, {})
        absent = [] if job.first.exists() else ["not here"]
        faults = self.freshness.faults(job)
        return Link(
            kind,
            file,
            digest=f"md5 {recorded.get('md5', 'unknown')}",
            changes=(*absent, *faults, *changes),
        )

    def _receipt(self, job: Job) -> JSON:
        receipt = self.freshness.receipt(job)
        if receipt is None:
            raise UserError(f"This number has no chain: {job.id} has no receipt. {self.freshness.advice(job)}")
        return receipt


def _gap(sheet: Sheet, cell: Cell) -> str:
    if cell.state == "unreported":
        return "Not measured: the cost of images that others generated is unknown."
    if cell.uncomputed:
        return not_computed([cell])
    command = sheet.command if cell.part.experiment else evaluating(cell.part)
    return f"Not measured yet; `{command}` measures it."


def _evaluated(path: Path) -> list[Link]:
    """The facts that a file of `rtm evaluate A B` holds."""
    file = read_json(path)
    facts = [("metrics", str(path), digest(path))]
    for role in ("images", "reference"):
        facts.append((role, file[role]["name"], file[role]["sha256"]))
    return [Link(kind, what, f"sha256 {sha256}", unchanged="") for kind, what, sha256 in facts]


def _made(made: JSON) -> str:
    """A text with host, job, time, cost and hardware."""
    slurm_jobs = made.get("slurm_jobs") or [made.get("slurm_job")]
    environment = made.get("environment", {})
    versions = [f"{name} {environment[name]}" for name in ("torch", "cuda") if name in environment]
    facts = [
        made.get("host"),
        any(slurm_jobs) and f"SLURM job {', '.join(slurm_jobs)}",
        made.get("time", "")[:16].replace("T", " "),
        f"{made.get('seconds', 0):.0f} s",
        f"{made.get('gpu_hours', 0):g} GPU-hours",
        environment.get("gpu"),
        *versions,
    ]
    return ", ".join(fact for fact in facts if fact)
