"""Whether a job must run again.

A job is fresh if its receipt names the same values, the same code and the same inputs, and its files are the recorded
ones. Snakemake and DVC both ask here. No clock is used, so a clone, a pull or a touch makes nothing stale.
"""

import json
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

from rtm.config.loading import VARIANTS
from rtm.core.advice import make_command
from rtm.core.errors import UserError
from rtm.core.files import json_digest
from rtm.lineage.acceptance import Acceptances
from rtm.lineage.changes import changes
from rtm.lineage.code import present
from rtm.lineage.hashes import Hashes
from rtm.lineage.history import changed_code
from rtm.lineage.receipts import JSON, contradictions, fingerprint_of, read_receipt
from rtm.stages.base import Job


class State(Enum):
    FRESH = "fresh"
    ABSENT = "absent"  # the receipt is right, but outputs are not here: they can be pulled or made again
    CHANGED = "changed"  # the outputs here are not the recorded ones
    STALE = "stale"

    @property
    def is_usable(self) -> bool:
        """Whether the result is as recorded, here or elsewhere."""
        return self in (State.FRESH, State.ABSENT)


class Freshness:
    """The states of jobs. Receipts and files are read once."""

    def __init__(self) -> None:
        self.hashes = Hashes()
        self.acceptances = Acceptances.read()
        self._states: dict[str, State] = {}
        self._parts: dict[str, JSON] = {}
        self._receipts: dict[str, JSON | None] = {}

    def receipt(self, job: Job) -> JSON | None:
        if job.id not in self._receipts:
            self._receipts[job.id] = read_receipt(job.receipt) if job.receipt.exists() else None
        return self._receipts[job.id]

    def parts(self, job: Job) -> JSON:
        """The present values of everything that a job depends on."""
        if job.id not in self._parts:
            parts = {
                "params": job.values,
                "code": present().root(job.code),
                "inputs": {before.id: self.identity(before, path) for before, path in job.reads()},
            }
            self._parts[job.id] = json.loads(json.dumps(parts))
        return self._parts[job.id]

    def fingerprint(self, job: Job) -> str:
        return fingerprint_of(job.stage.name, self.parts(job))

    def identity(self, job: Job, read: Path) -> str | None:
        """The hash of a job's files, for a job that reads one of them. Files outside of git and DVC keep their first
        hash when they are made again: another processor may round differently. Files of the stage's `apart` count only
        for jobs that read them."""
        receipt = self.receipt(job)
        if receipt is None:
            return None
        outputs = receipt["outputs"]
        apart = {str(path) for key, path in job.outputs.items() if key in job.stage.apart}
        name = str(read)
        counted = {name} if name in apart else outputs.keys() - apart
        return receipt.get("identity") or json_digest([outputs[each]["md5"] for each in outputs if each in counted])

    def state(self, job: Job) -> State:
        if job.id not in self._states:
            self._states[job.id] = self._state(job)
        return self._states[job.id]

    def _state(self, job: Job) -> State:
        receipt = self.receipt(job)
        if receipt is None or not self.has_inputs(job) or not self.matches(job, receipt):
            return State.STALE
        if self.changed_files(receipt):
            return State.CHANGED
        is_here = all(path.exists() for path in job.outputs.values())
        return State.FRESH if is_here else State.ABSENT

    def is_fresh(self, job: Job) -> bool:
        return self.state(job) is State.FRESH

    def has_inputs(self, job: Job) -> bool:
        """Whether the results of all jobs before this one are as recorded."""
        return all(self.state(before).is_usable for before in job.inputs)

    def matches(self, job: Job, receipt: JSON) -> bool:
        """Whether a receipt belongs to the present values, code and inputs."""
        if contradictions(job, receipt) or self.changed_values(job, receipt):
            return False
        return self.is_same_code(job, receipt["parts"]["code"])

    def is_same_code(self, job: Job, code: str) -> bool:
        """Whether a hash is that of the present code, or was accepted as the same."""
        return self.acceptances.connect(job.id, code, self.parts(job)["code"])

    def changed_values(self, job: Job, receipt: JSON) -> list[str]:
        """The values and inputs that changed since a receipt: old -> new."""
        then = receipt["parts"]
        now = self.parts(job)
        values = [f"{place}: {old} -> {new}" for place, old, new in changes(then["params"], now["params"])]
        inputs = [f"{name} has a new result" for name, _, _ in changes(then["inputs"], now["inputs"])]
        return values + inputs

    def changes(self, job: Job, receipt: JSON) -> list[str]:
        """All changes since a receipt, with names."""
        changed = self.changed_values(job, receipt)
        if not self.is_same_code(job, receipt["parts"]["code"]):
            changed.append(changed_code(job, receipt))
        return changed

    def changed_files(self, receipt: JSON) -> list[str]:
        """Sentences about files on this machine whose bytes differ from the recorded ones."""
        return [
            f"{name} is not the recorded one"
            for name, recorded in receipt["outputs"].items()
            if (path := Path(name)).exists() and self.hashes.described(path, like=recorded) != recorded
        ]

    def faults(self, job: Job) -> list[str]:
        """What is wrong with a receipt and its files, whether they are stale or not."""
        receipt = self.receipt(job)
        return [*contradictions(job, receipt), *self.changed_files(receipt)] if receipt else []

    def why(self, job: Job) -> list[str]:
        """The reasons why the job is not fresh; empty if it is."""
        receipt = self.receipt(job)
        unusable = [before for before in job.inputs if not self.state(before).is_usable]
        stale = [f"{before.id} is {self.state(before).value}" for before in unusable]
        if receipt is None:
            return ["it was never made", *stale]
        missing = [f"{path} is not here" for path in job.outputs.values() if not path.exists()]
        reasons = [*contradictions(job, receipt), *self.changes(job, receipt), *stale]
        return [*reasons, *self.changed_files(receipt), *missing]

    def verify(self, jobs: Iterable[Job]) -> None:
        """Raise an error if a job is not fresh, with the reason and the remedy."""
        for job in jobs:
            if not self.is_fresh(job):
                why = "; ".join(self.why(job))
                raise UserError(f"{job.id} is {self.state(job).value}: {why}. {self.advice(job)}")

    def assume(self, job: Job, receipt: JSON) -> None:
        """Count a job as made with this receipt, because its files come from elsewhere."""
        self._receipts[job.id] = receipt
        self._parts.clear()
        self._states = {name: state for name, state in self._states.items() if state is State.FRESH}
        self._states[job.id] = State.FRESH

    def advice(self, job: Job) -> str:
        """The command that makes the job fresh."""
        if job.root.startswith(f"{VARIANTS}/"):  # Snakemake does not know variants
            return f"Begin with `rtm make {self._first_missing(job).id}`."
        target = job.first
        pulled = "data.dvc" if job.id.startswith("dataset/") else target
        needs_gpus = any(each.cost.gpus for each in job.upstream() if self._must_run(each, job))
        made = make_command(target, gpus=needs_gpus)
        if job.keeper == "nobody" or self.state(job) is State.STALE:
            return f"Make it with `{made}`."
        if self.state(job) is State.CHANGED:
            return f"Bring the recorded one back with `dvc checkout {pulled}` or `git checkout -- {target}`."
        return f"Get it with `dvc pull {pulled}`, or make it with `{made}`."

    def _first_missing(self, job: Job) -> Job:
        """The first job to make, of those with the job's own folder."""
        own = (each for each in job.upstream() if each.root == job.root)
        return next(each for each in own if self._must_run(each, job))

    def _must_run(self, each: Job, wanted: Job) -> bool:
        return each is wanted or not self.state(each).is_usable
