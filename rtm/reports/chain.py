"""The chain behind a number: each link from its metrics file to the data, and whether it changed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtm.config import Config
from rtm.config.reports import CellSpec
from rtm.core.errors import UserError
from rtm.core.files import digest_of_all
from rtm.core.layout import Layout
from rtm.lineage.format import JSON
from rtm.lineage.job import Job
from rtm.lineage.receipts import Ledger
from rtm.lineage.receipts import State as Made
from rtm.pipeline.graph import jobs
from rtm.reports.cells import Cell, Sheet, State
from rtm.reports.notes import measuring, not_computed

KINDS = {"summary": "summary", "evaluate": "metrics", "foreign": "metrics", "latency": "latency", "train": "checkpoint"}
EACH = "The mean of the rows above; each row has its own chain."
MEANS: Mapping[State, str] = {
    "measured": EACH,
    "evaluated": EACH,
    "published": "The mean of the published rows above, computed here.",
    "missing": "No mean: not all rows above are measured.",
    "unreported": "No mean: not all rows above are reported.",
}
OF_SAMPLES = "sample."  # prefix of the samples' parameters in the receipt of a metrics file


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

    def __init__(self, config: Config, layout: Layout) -> None:
        self.config, self.layout, self.ledger = config, layout, Ledger()
        self.graph: Mapping[str, Job] = jobs(config)

    def changed(self, stage: str, name: str) -> bool:
        """Whether the inputs or files of a table or figure changed since it was made."""
        job = self.graph[f"{stage}/{name}"]
        return self.ledger.receipt(job) is not None and self.ledger.state(job) in (Made.STALE, Made.CHANGED)

    def origin(self, sheet: Sheet, cell: Cell) -> str:
        """A sentence about the origin of the cell's number."""
        part = cell.part
        if part.published:
            entry = self.config.params.published[part.published]
            origin = "Published, not measured here" if cell.state == "published" else "Not reported by its source"
            return " ".join([f"{origin}: {entry.source}.", *_sentence(entry.reference)])
        if not cell.measurable:
            return MEANS[cell.state]
        if cell.value is None:
            return self._gap(sheet, cell)
        if part.foreign:
            return f"Measured here on images that others generated: {self.config.params.foreign[part.foreign].source}."
        seeds = len(self.config.experiment(str(part.experiment)).seeds)
        return "Measured here" + (f": mean ± standard deviation over {seeds} seeds." if cell.spread else ".")

    def _gap(self, sheet: Sheet, cell: Cell) -> str:
        if cell.state == "unreported":
            return "Not measured: the cost of images that others generated is unknown."
        if cell.uncomputed(self.layout):
            return not_computed(sheet, [cell])
        return f"Not measured yet; `{measuring(self.config, self.layout, sheet)}` measures it."

    def of(self, part: CellSpec) -> list[Link]:
        """The chain of a measured cell, from the summary to the data; a job without a receipt is an error."""
        if part.foreign:
            return self._foreign(part.foreign, str(part.protocol))
        experiment = self.config.experiment(str(part.experiment))
        name, seeds = experiment.name, experiment.seeds
        measuring = {seed: self.graph.get(f"evaluate/{name}/{part.protocol}/seed{seed}") for seed in seeds}
        if str(part.section).startswith("latency"):
            measuring = {seeds[0]: self.graph[f"latency/{name}"]}
        links, shared = self._links(self.graph[f"summary/{name}"]), {}
        for seed, job in measuring.items():
            assert job is not None
            for each in reversed(list(job.upstream())):
                if each.stage in ("fetch", "reference"):
                    shared[each.id] = each
                else:
                    found = self._samples(each, job) if each.temporary else self._links(each)
                    links += [replace(link, seed=seed) for link in found]
        return links + [link for job in shared.values() for link in self._links(job)]

    def _foreign(self, name: str, protocol: str) -> list[Link]:
        job, entry = self.graph[f"foreign/{name}/{protocol}"], self.config.params.foreign[name]
        path = Path(entry.samples)
        changes = () if path.exists() else ("not here",)
        if path.exists() and digest_of_all(path) != entry.sha256:
            changes = (f"{path} is not what params/foreign.yaml says",)
        samples = Link("samples", entry.samples, f"sha256 {entry.sha256}", changes)
        *behind, _ = job.upstream()
        return [*self._links(job), samples, *(link for each in reversed(behind) for link in self._links(each))]

    def _receipt(self, job: Job) -> JSON:
        receipt = self.ledger.receipt(job)
        if receipt is None:
            raise UserError(f"This number has no chain: {job.id} has no receipt. {self.ledger.advice(job)}")
        return receipt

    def _links(self, job: Job) -> list[Link]:
        receipt, path = self._receipt(job), job.outputs[0]
        changed, made = self.ledger.differences(job, receipt), receipt["made"]
        recorded = receipt["outputs"].get(str(path), {}).get("md5", "unknown")
        changes = [*([] if path.exists() else ["not here"]), *self.ledger.untrue(job), *changed["inputs"]]
        params = [each for each in changed["params"] if not each.startswith(OF_SAMPLES)]
        file = Link(self._kind(job), str(path), f"md5 {recorded}", tuple(changes))
        if job.stage not in KINDS or job.stage == "summary":
            return [replace(file, changes=(*changes, *params, *changed["code"]))]
        return [
            file,
            Link("parameters", f"fingerprint {receipt['fingerprint'][:16]}", changes=tuple(params)),
            Link("code", f"revision {made.get('revision') or 'unknown'}", changes=tuple(changed["code"])),
            Link("made", _made(made), unchanged=""),
        ]

    def _kind(self, job: Job) -> str:
        if job.stage == "fetch":
            return "dataset" if job.name in self.config.params.datasets else "network"
        return KINDS.get(job.stage, job.stage)

    def _samples(self, job: Job, measuring: Job) -> list[Link]:
        """Samples are deleted after use; the receipt of the metrics records their parameters."""
        changed = self.ledger.differences(measuring, self._receipt(measuring))["params"]
        changes = tuple(each.removeprefix(OF_SAMPLES) for each in changed if each.startswith(OF_SAMPLES))
        kept = "" if Path(job.outputs[0]).exists() else ", deleted after use"
        what = f"{job.params['samples']:,} images, {', '.join(job.params['variants'])}{kept}"
        return [Link("samples", what, changes=changes, unchanged="same parameters")]


def _sentence(text: str | None) -> list[str]:
    return [f"{text}."] if text else []


def _made(made: JSON) -> str:
    """A text with host, job, time, cost and hardware."""
    jobs = made.get("slurm_jobs") or [job for job in (made.get("slurm_job"),) if job]
    where = [*([made["host"]] if "host" in made else []), *([f"SLURM job {', '.join(jobs)}"] if jobs else [])]
    when = made.get("time", "")[:16].replace("T", " ")
    found = made.get("environment", {})
    on = [f"{'' if name == 'gpu' else f'{name} '}{found[name]}" for name in ("gpu", "torch", "cuda") if name in found]
    return ", ".join([*where, when, f"{made.get('seconds', 0):.0f} s", f"{made.get('gpu_hours', 0):g} GPU-hours", *on])
