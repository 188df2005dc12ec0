"""Staleness by content: receipts, and the one answer to "must this run again?".

A job's fingerprint is a hash of its parts: parameters by value, code by content (`rtm.lineage.fingerprint`), and inputs
by the bytes of the jobs before it. When a job is finished, it writes a receipt (git keeps lineage/) with these parts
and the md5 of its outputs. A job is fresh if its receipt has the present parts, or code that was accepted as the same
(`rtm.lineage.equivalence`), and its outputs are the recorded ones. Snakemake and DVC both ask here. No clock is used,
so a clone, a pull or a touch makes nothing stale.
"""

import json
from enum import Enum
from pathlib import Path

from rtm.config.loading import VARIANTS
from rtm.core.errors import UserError
from rtm.core.files import json_digest, make_command, write_text
from rtm.lineage.changes import ABSENT, changes
from rtm.lineage.definitions import Graph
from rtm.lineage.equivalence import Comparison, Line, read_lines
from rtm.lineage.fingerprint import present
from rtm.lineage.format import JSON, code_file, fingerprint_of, read_receipt, recorded_graph
from rtm.lineage.hashes import Hashes
from rtm.lineage.job import Job


class State(Enum):
    FRESH = "fresh"
    ABSENT = "absent"  # the receipt is right, but outputs are not here: they can be pulled or made again
    CHANGED = "changed"  # the outputs here are not the recorded ones
    STALE = "stale"


class Ledger:
    """Receipts and files as they are now, each read once."""

    def __init__(self) -> None:
        self.hashes = Hashes()
        self._states: dict[str, State] = {}
        self._parts: dict[str, JSON] = {}
        self._receipts: dict[str, JSON | None] = {}
        self._lines: tuple[Line, ...] | None = None
        self._compared: dict[tuple[Path, str], Comparison | None] = {}
        self._assumed: set[str] = set()

    def receipt(self, job: Job) -> JSON | None:
        if job.id not in self._receipts:
            self._receipts[job.id] = read_receipt(job.receipt) if job.receipt.exists() else None
        return self._receipts[job.id]

    def parts(self, job: Job) -> JSON:
        """The present values of everything that a job depends on. Temporary jobs before it count as parts of it."""
        if job.id not in self._parts:
            through = _through(job)
            lasting = [read for each in (job, *through) for read in each.reads() if not read[0].temporary]
            parts = {
                "params": {**job.params, **{before.stage: before.params for before in through}},
                "code": present().root(_entries(job)),
                "inputs": {before.id: self.identity(before, path) for before, path in lasting},
            }
            self._parts[job.id] = json.loads(json.dumps(parts))
        return self._parts[job.id]

    def keep_code(self, job: Job) -> None:
        """Write the definitions behind the present hash of a job's code beside the receipts."""
        path = code_file(job, self.parts(job)["code"])
        if not path.exists():
            write_text(path, present().graph(_entries(job)).text())

    @property
    def lines(self) -> tuple[Line, ...]:
        """All acceptances."""
        if self._lines is None:
            self._lines = read_lines()
        return self._lines

    def compared(self, job: Job, receipt: JSON) -> Comparison | None:
        """The comparison of a receipt's code with the present code; None if the receipt's definitions are lost."""
        path, now = code_file(job, receipt["parts"]["code"]), self.parts(job)["code"]
        if (path, now) not in self._compared:
            old = recorded_graph(path)
            found = Comparison(old, present().graph(_entries(job)), self.lines) if old else None
            self._compared[path, now] = found
        return self._compared[path, now]

    def _code(self, job: Job, receipt: JSON) -> list[str]:
        """Sentences about the definitions that changed since the receipt."""
        recorded = receipt["parts"]["code"]
        if recorded == self.parts(job)["code"]:
            return []
        compared = self.compared(job, receipt)
        return compared.reasons if compared else [f"code changed, and {code_file(job, recorded)} is missing or damaged"]

    def fingerprint(self, job: Job) -> str:
        return fingerprint_of(job, self.parts(job))

    def identity(self, job: Job, read: Path) -> str | None:
        """A hash of a job's outputs, for the jobs that read them. If nobody keeps the files, they may be made again
        with other rounding, but they keep the hash of the first files.

        Volatile outputs count only for jobs that read them: a training's curve has times, which differ in every run.
        """
        receipt = self.receipt(job)
        if receipt is None:
            return None
        steady = receipt["outputs"].keys() - set(map(str, job.volatile))
        counts = {str(read)} if read in job.volatile else steady
        md5s = [output["md5"] for name, output in receipt["outputs"].items() if name in counts]
        return receipt.get("identity") or json_digest(md5s)

    def state(self, job: Job) -> State:
        if job.id not in self._states:
            self._states[job.id] = self._state(job)
        return self._states[job.id]

    def _state(self, job: Job) -> State:
        receipt = self.receipt(job)
        if job.temporary and not job.outputs[0].exists():
            return State.ABSENT if self.sound(job) else State.STALE
        if receipt is None or not self.sound(job) or self._untrue(job, receipt) or self.reasons(job, receipt):
            return State.STALE
        if self.changed_outputs(receipt):
            return State.CHANGED
        return State.FRESH if all(path.exists() for path in job.outputs) else State.ABSENT

    def sound(self, job: Job) -> bool:
        """Whether the results of all jobs before this one are as recorded, here or elsewhere."""
        return all(self._usable(before) for before in job.inputs)

    def assume(self, job: Job, receipt: JSON) -> None:
        """Count a job as fresh with this receipt, because its result comes from the store."""
        self._receipts[job.id] = receipt
        self._assumed.add(job.id)
        self._states = dict.fromkeys(self._assumed, State.FRESH)
        self._parts.clear()

    def comparisons(self) -> list[Comparison]:
        """All comparisons that were made so far."""
        return [compared for compared in self._compared.values() if compared]

    def same_code(self, job: Job, graph: Graph) -> bool:
        """Whether this code is the present code, or was accepted as the same."""
        return Comparison(graph, present().graph(_entries(job)), self.lines).equal()

    def adopted(self, job: Job, receipt: JSON, outputs: JSON, source: JSON) -> JSON:
        """A receipt of this job, from the receipt of the same result with another name."""
        parts = {**receipt["parts"], **{part: self.parts(job)[part] for part in ("params", "inputs")}}
        signed = {"fingerprint": fingerprint_of(job, parts), "parts": parts, "outputs": outputs}
        return {**receipt, **signed, "from": source}

    def fresh(self, job: Job) -> bool:
        return self.state(job) is State.FRESH

    def why(self, job: Job) -> list[str]:
        """The reasons why the job is stale, with names; empty if it is fresh."""
        receipt = self.receipt(job)
        missing = [f"{path} is not here" for path in job.outputs if not path.exists()]
        if receipt is None:
            return ["it was never made", *self._stale_inputs(job)]
        reasons = [*self._untrue(job, receipt), *self.reasons(job, receipt), *self._stale_inputs(job)]
        return [*reasons, *self.changed_outputs(receipt), *missing]

    def _untrue(self, job: Job, receipt: JSON) -> list[str]:
        """Contradictions in a receipt, for example after an edit by hand or a bad merge."""
        outputs = {str(path) for path in job.outputs}
        if receipt["fingerprint"] != fingerprint_of(job, receipt["parts"]):
            return [f"{job.receipt} was edited: its fingerprint does not follow from its parts"]
        if not job.temporary and receipt["outputs"].keys() != outputs:
            return [f"{job.receipt} names other outputs: {', '.join(sorted(receipt['outputs'].keys() ^ outputs))}"]
        return []

    def differences(self, job: Job, receipt: JSON) -> dict[str, list[str]]:
        """The changes since the receipt, for each part: parameters (old -> new), definitions, inputs."""
        old, new = receipt["parts"], self.parts(job)
        changed = {part: list(changes(old[part], new[part])) for part in ("params", "inputs")}
        return {
            "params": [f"{where}: {before} -> {after}" for where, before, after in changed["params"]],
            "code": self._code(job, receipt),
            "inputs": [f"{name} has a new result" for name, *_ in changed["inputs"]],
        }

    def reasons(self, job: Job, receipt: JSON) -> list[str]:
        """All changes since the receipt."""
        return [reason for part in self.differences(job, receipt).values() for reason in part]

    def matches(self, job: Job, receipt: JSON) -> bool:
        """Whether a receipt belongs to the present parts."""
        return not (self._untrue(job, receipt) or self.reasons(job, receipt))

    def other_results(self, job: Job, receipt: JSON) -> list[str]:
        """Differences that no refactoring explains: other values (also null) with the same name, or other inputs."""
        old, new = receipt["parts"], self.parts(job)
        changed = (change for part in ("params", "inputs") for change in changes(old[part], new[part]))
        return [f"{where} has another value" for where, *values in changed if ABSENT not in values]

    def _stale_inputs(self, job: Job) -> list[str]:
        return [f"{before.id} is {self.state(before).value}" for before in job.inputs if not self._usable(before)]

    def _usable(self, job: Job) -> bool:
        return self.sound(job) if job.temporary else self.state(job) in (State.FRESH, State.ABSENT)

    def changed_outputs(self, receipt: JSON) -> list[str]:
        """Sentences about outputs on this machine whose bytes differ from the recorded ones."""
        return [
            f"{path} is not the recorded one"
            for path, recorded in receipt["outputs"].items()
            if Path(path).exists() and self.hashes.described(Path(path), like=recorded) != recorded
        ]

    def untrue(self, job: Job) -> list[str]:
        """The faults of a receipt."""
        receipt = self.receipt(job)
        return [*self._untrue(job, receipt), *self.changed_outputs(receipt)] if receipt else []

    def verify(self, job: Job) -> None:
        """Raise an error if a job is not fresh, with the reason and the remedy."""
        if not self.fresh(job):
            raise UserError(f"{job.id} is {self.state(job).value}: {'; '.join(self.why(job))}. {self.advice(job)}")

    def advice(self, job: Job) -> str:
        """The command that makes the job fresh."""
        if job.root.startswith(f"{VARIANTS}/"):  # Snakemake does not know variants
            own = (each for each in job.upstream() if each.root == job.root)
            return f"Begin with `{next(each for each in own if each is job or not self._usable(each)).command}`."
        target = job.outputs[0]
        gpus = any(each.compute.gpus for each in job.upstream() if each is job or not self._usable(each))
        made = make_command(target, *(["--notemp"] if job.temporary else []), gpus=gpus)
        if job.temporary or job.keeper == "nobody":
            return f"Make it with `{made}`."
        return {
            State.FRESH: "Nothing is to be done.",
            State.ABSENT: f"Get it with `dvc pull {target}`, or make it with `{made}`.",
            State.CHANGED: f"Bring the recorded one back with `dvc checkout {target}` or `git checkout -- {target}`.",
            State.STALE: f"Make it with `{made}`.",
        }[self.state(job)]

    def stands(self, job: Job) -> bool:
        """Whether the receipt and the outputs here belong to the present parts; earlier jobs may be stale."""
        receipt = self.receipt(job)
        return job.temporary or bool(receipt and self.matches(job, receipt) and not self.changed_outputs(receipt))


def _through(job: Job) -> list[Job]:
    return [before for before in job.inputs if before.temporary]


def _entries(job: Job) -> tuple[str, ...]:
    """The code of a job and of the temporary jobs before it."""
    return tuple(entry for each in (job, *_through(job)) for entry in each.entries)
