"""Staleness by content: fingerprints, receipts, and the one answer to "must this run again?".

A job's fingerprint is a hash of its parts: parameters by value, code by meaning, and inputs by the bytes that the
jobs before it left. A finished job writes a receipt last (git keeps lineage/): those parts, and the md5 of its
outputs. A job is fresh while its receipt tells the present parts and its outputs are the recorded ones; Snakemake and
DVC both ask here. No clock is looked at, so a clone, a pull or a touch makes nothing stale.
"""

import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE, checkpoint_metadata, digest, making, read_json, write_json
from rtm.core.layout import Layout, saved_states
from rtm.lineage.meaning import meaning
from rtm.pipeline.graph import Job

HASHES = Path(".snakemake/rtm/md5.json")  # md5 by path, size and time: a large file is read once
JSON = dict[str, Any]
ABSENT = "absent"  # how a value whose key is not there is told; strings have quotes
_NOTHING = object()


class State(Enum):
    FRESH = "fresh"
    ABSENT = "absent"  # what the receipt tells is right, but outputs are not here: pulled or made again at need
    CHANGED = "changed"  # the outputs here are not the recorded ones
    STALE = "stale"


class Ledger:
    """Receipts and files as they are now, each read once."""

    def __init__(self) -> None:
        self.hashes = _Hashes()
        self._states: dict[str, State] = {}
        self._parts: dict[str, JSON] = {}
        self._receipts: dict[str, JSON | None] = {}

    def receipt(self, job: Job) -> JSON | None:
        if job.id not in self._receipts:
            self._receipts[job.id] = _signed(job.receipt) if job.receipt.exists() else None
        return self._receipts[job.id]

    def parts(self, job: Job) -> JSON:
        """What a job depends on, as it is now; temporary jobs before it count as parts of it."""
        if job.id not in self._parts:
            through = [before for before in job.inputs if before.temporary]
            lasting = [read for each in (job, *through) for read in each.reads() if not read[0].temporary]
            parts = {
                "params": {**job.params, **{before.stage: before.params for before in through}},
                "code": meaning(tuple(entry for each in (job, *through) for entry in each.entries)),
                "inputs": {before.id: self.identity(before, path) for before, path in lasting},
            }
            self._parts[job.id] = json.loads(json.dumps(parts))
        return self._parts[job.id]

    def fingerprint(self, job: Job) -> str:
        return _fingerprint(job, self.parts(job))

    def identity(self, job: Job, read: Path) -> str | None:
        """A job's outputs as others depend on them: by their bytes, or those that they were made again in place of.

        Of a training only the file that is read counts: the curve tells the time, which is another in every run.
        """
        receipt = self.receipt(job)
        if receipt is None:
            return None
        aside = set(map(str, job.aside))
        counts = {str(read)} if job.stage == "train" else receipt["outputs"].keys() - aside
        md5s = [output["md5"] for name, output in receipt["outputs"].items() if name in counts]
        return receipt.get("identity") or _hash(md5s)

    def state(self, job: Job) -> State:
        if job.id not in self._states:
            self._states[job.id] = self._state(job)
        return self._states[job.id]

    def _state(self, job: Job) -> State:
        receipt = self.receipt(job)
        if job.temporary and not job.outputs[0].exists():
            return State.ABSENT if self._sound(job) else State.STALE
        if receipt is None or not self._sound(job) or self._untrue(job, receipt) or self._differences(job, receipt):
            return State.STALE
        if self.changed_outputs(receipt):
            return State.CHANGED
        return State.FRESH if all(path.exists() for path in job.outputs) else State.ABSENT

    def _sound(self, job: Job) -> bool:
        """Whether everything before the job is as recorded, here or elsewhere."""
        return all(self._usable(before) for before in job.inputs)

    def fresh(self, job: Job) -> bool:
        return self.state(job) is State.FRESH

    def why(self, job: Job) -> list[str]:
        """What made the job stale, by name; nothing if it is fresh."""
        receipt = self.receipt(job)
        missing = [f"{path} is not here" for path in job.outputs if not path.exists()]
        if receipt is None:
            return ["it was never made", *self._stale_inputs(job)]
        told = [*self._untrue(job, receipt), *self._differences(job, receipt), *self._stale_inputs(job)]
        return [*told, *self.changed_outputs(receipt), *missing]

    def _untrue(self, job: Job, receipt: JSON) -> list[str]:
        """What in a receipt cannot be: written by hand, or merged badly."""
        told = {str(path) for path in job.outputs}
        if receipt["fingerprint"] != _fingerprint(job, receipt["parts"]):
            return [f"{job.receipt} was edited: its fingerprint does not follow from its parts"]
        if not job.temporary and receipt["outputs"].keys() != told:
            return [f"{job.receipt} tells of other outputs: {', '.join(sorted(receipt['outputs'].keys() ^ told))}"]
        return []

    def differences(self, job: Job, receipt: JSON) -> dict[str, list[str]]:
        """Since the receipt, by part: parameters old -> new, modules, inputs."""
        old, new = receipt["parts"], self.parts(job)
        changed = {part: list(_changes(old[part], new[part])) for part in ("params", "code", "inputs")}
        return {
            "params": [f"{where}: {before} -> {after}" for where, before, after in changed["params"]],
            "code": [f"code of {name} changed" for name, *_ in changed["code"]],
            "inputs": [f"{name} has a new result" for name, *_ in changed["inputs"]],
        }

    def _differences(self, job: Job, receipt: JSON) -> list[str]:
        return [told for part in self.differences(job, receipt).values() for told in part]

    def other_results(self, job: Job, receipt: JSON) -> list[str]:
        """Differences that no refactoring makes: other values under the same name, null among them; other inputs."""
        old, new = receipt["parts"], self.parts(job)
        changes = [*_changes(old["params"], new["params"]), *_changes(old["inputs"], new["inputs"])]
        return [f"{where} has another value" for where, *values in changes if ABSENT not in values]

    def _stale_inputs(self, job: Job) -> list[str]:
        return [f"{before.id} is {self.state(before).value}" for before in job.inputs if not self._usable(before)]

    def _usable(self, job: Job) -> bool:
        return self._sound(job) if job.temporary else self.state(job) in (State.FRESH, State.ABSENT)

    def changed_outputs(self, receipt: JSON) -> list[str]:
        """Outputs that are here with other bytes than recorded."""
        return [
            f"{path} is not the recorded one"
            for path, recorded in receipt["outputs"].items()
            if Path(path).exists() and self.hashes.described(Path(path), like=recorded) != recorded
        ]

    def untrue(self, job: Job) -> list[str]:
        """What a receipt tells that is not so."""
        receipt = self.receipt(job)
        return [*self._untrue(job, receipt), *self.changed_outputs(receipt)] if receipt else []

    def verify(self, job: Job) -> None:
        """Refuse a job that is not fresh, with the reason and what to do."""
        if not self.fresh(job):
            raise UserError(f"{job.id} is {self.state(job).value}: {'; '.join(self.why(job))}. {self.advice(job)}")

    def advice(self, job: Job) -> str:
        """The command that puts a state right."""
        target = job.outputs[0]
        to_do = (each for each in job.upstream() if each is job or not self._usable(each))
        made = making(target, *(["--notemp"] if job.temporary else []), gpus=any(each.compute.gpus for each in to_do))
        if job.temporary or not _is_kept(job):
            return f"Make it with `{made}`."
        return {
            State.FRESH: "Nothing is to be done.",
            State.ABSENT: f"Get it with `dvc pull {target}`, or make it with `{made}`.",
            State.CHANGED: f"Bring the recorded one back with `dvc checkout {target}` or `git checkout -- {target}`.",
            State.STALE: f"Make it with `{made}`.",
        }[self.state(job)]

    def accept(self, job: Job, reason: str) -> bool:
        """Sign a receipt anew for the present parts, with a trace; False if there was no need."""
        receipt = self.receipt(job)
        if job.temporary or self.state(job) in (State.FRESH, State.ABSENT):
            return False
        if receipt is None:
            raise UserError(f"{job.id} was never made, so there is nothing to accept. {self.advice(job)}")
        if told := [*self._untrue(job, receipt), *self.changed_outputs(receipt), *self.other_results(job, receipt)]:
            raise UserError(f"{job.id} cannot be accepted: {'; '.join(told)}. {self.advice(job)}")
        signed = {"fingerprint": self.fingerprint(job), "parts": self.parts(job)}
        accepted = [*receipt.get("accepted", []), self.trace(job, receipt, reason)]
        write_json(job.receipt, {**receipt, **signed, "accepted": accepted})
        for memory in (self._receipts, self._states, self._parts):
            memory.clear()
        return True

    def trace(self, job: Job, receipt: JSON, reason: str) -> JSON:
        """What stays of an acceptance."""
        return {
            "reason": reason,
            "changes": self._differences(job, receipt),
            "fingerprint": receipt["fingerprint"],
            "revision": _revision(),
            "time": _now(),
        }


@dataclass
class Recording:
    """A job that runs: its fingerprint, the receipt of an earlier run, and facts for the new one (GPU hours, say)."""

    fingerprint: str
    parts: JSON
    before: JSON = field(default_factory=dict)
    facts: JSON = field(default_factory=dict)


@contextmanager
def recorded(job: Job) -> Iterator[Recording]:
    """Run a job: take its fingerprint first, and leave the receipt last."""
    ledger = Ledger()
    _refuse_unknown_inputs(ledger, job)
    refuse_lost(ledger, job)
    before = ledger.receipt(job)
    recording = Recording(ledger.fingerprint(job), ledger.parts(job), before or {})
    began = time.monotonic()
    yield recording
    seconds = time.monotonic() - began
    outputs = {str(path): ledger.hashes.described(path) for path in job.outputs if not job.temporary}
    made = {
        "host": platform.node(),
        "seconds": round(seconds, 3),
        "gpu_hours": round(seconds / 3600 * job.compute.gpus, 3),
        "time": _now(),
        "revision": _revision(),
        **({"slurm_job": os.environ["SLURM_JOB_ID"]} if "SLURM_JOB_ID" in os.environ else {}),
        **recording.facts,
    }
    told = {"fingerprint": recording.fingerprint, "parts": ledger.parts(job), "outputs": outputs}
    if before is None or {key: before[key] for key in told} != told:  # the same again leaves git as it is
        same = before is not None and before["fingerprint"] == recording.fingerprint
        # nobody keeps features, and another processor rounds them otherwise: no reason to train anything again
        kept = {"identity": ledger.identity(job, job.outputs[0])} if same and job.stage == "reference" else {}
        write_json(job.receipt, {**told, **kept, "made": made})
    ledger.hashes.save()


def refuse_lost(ledger: Ledger, job: Job) -> None:
    """Keep a finished training from being done again because its weights or its receipt are elsewhere or changed."""
    if job.stage == "train" and ledger.receipt(job) is None and _is_trained(ledger, job):
        raise UserError(f"{job.id} is trained, but it {unsigned(job)}, or delete {job.outputs[0]} to train it again.")
    if job.stage != "train" or ledger.state(job) not in (State.ABSENT, State.CHANGED):
        return
    if ledger.state(job) is State.CHANGED or not _can_finish(ledger, job):
        folder = job.outputs[0].parent
        raise UserError(
            f"{job.id} is finished, but {'; '.join(ledger.why(job))}: bring it back with `dvc checkout {folder}` or "
            f"`dvc pull {folder}`, or delete {job.receipt} to train it again."
        )


def unsigned(job: Job) -> str:
    """What to do about an output without a receipt."""
    return f"has no receipt: bring it back with `git checkout -- {job.receipt}` or `dvc checkout {job.receipt.parent}`"


def _is_trained(ledger: Ledger, job: Job) -> bool:
    """Whether the weights here say that they are of exactly this training, with no save to write them from again."""
    with suppress(*UNREADABLE):
        run = checkpoint_metadata(job.outputs[0])["run"]
        return bool(run == ledger.fingerprint(job)) and not _can_finish(ledger, job)
    return False


def _can_finish(ledger: Ledger, job: Job) -> bool:
    """Whether a save of the training is here, from which its weights can be written again."""
    return any(path.exists() for path in saved_states(run_folder(ledger, job)))


def run_folder(ledger: Ledger, job: Job) -> Path:
    """Where a training with the present parts keeps its state."""
    return Layout(Path(job.root), Path(job.root)).run(job.name.split("/")[0], ledger.fingerprint(job))


def _refuse_unknown_inputs(ledger: Ledger, job: Job) -> None:
    """Files nobody signed for are used by reports alone, which then stay stale."""
    if job.stage in ("table", "figure", "report"):
        return
    for before, path in job.reads():
        receipt = ledger.receipt(before)
        known = receipt is not None and path.exists() and not ledger.changed_outputs(receipt)
        if before.temporary:
            known = receipt is not None and receipt["fingerprint"] == ledger.fingerprint(before)
        if not known:
            raise UserError(f"{job.id} needs {before.id}: {'; '.join(ledger.why(before))}. {ledger.advice(before)}")


def _is_kept(job: Job) -> bool:
    """Whether DVC or git has its outputs; what comes from outside or is quickly made neither has."""
    return job.stage not in ("reference", "report") and "weights" not in job.outputs[0].parts


def _signed(receipt: Path) -> JSON:
    """What a receipt tells, if it is one."""
    told = read_json(receipt)
    whole = _holds(told, fingerprint=str, parts=dict, outputs=dict, made=dict)
    whole = whole and _holds(told["parts"], params=dict, code=dict, inputs=dict)
    if not (whole and all(_holds(output, md5=str, size=int) for output in told["outputs"].values())):
        raise UserError(
            f"{receipt} is not a whole receipt; bring it back with `git checkout -- {receipt}` or `dvc checkout "
            f"{receipt}`, or delete it and have what it signed for made again."
        )
    return dict(told)


def _holds(value: Any, **kinds: type) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(key), kind) for key, kind in kinds.items())


def _fingerprint(job: Job, parts: JSON) -> str:
    return _hash([job.stage, parts])


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _changes(old: Any, new: Any, where: str = "") -> Iterator[tuple[str, str, str]]:
    """The places where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from _changes(old.get(key, _NOTHING), new.get(key, _NOTHING), f"{where}.{key}" if where else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _changes(one, other, f"{where}[{place}]")
    elif old != new and not (_unset(old) and _unset(new)):  # a new option that is not used changes nothing
        yield where, _short(old), _short(new)


def _unset(value: Any) -> bool:
    return value is None or value is _NOTHING


def _short(value: Any, width: int = 60) -> str:
    text = ABSENT if value is _NOTHING else json.dumps(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _revision() -> str | None:
    """The commit, marked where tracked files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None


class _Hashes:
    """md5 and size of files, remembered by their size and time."""

    def __init__(self) -> None:
        self.known: dict[str, JSON] = {}
        self.new = False
        with suppress(OSError, ValueError):
            self.known = json.loads(HASHES.read_text())

    def described(self, path: Path, like: JSON | None = None) -> JSON:
        stat = path.stat()
        if like is not None and stat.st_size != like["size"]:
            return {"md5": "of another size", "size": stat.st_size}
        key = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
        found = self.known.get(str(path))
        if not found or found["key"] != key:
            found = self.known[str(path)] = {"key": key, "md5": digest(path, "md5")}
            self.new = True
        return {"md5": found["md5"], "size": stat.st_size}

    def save(self) -> None:
        """Losing an entry to another process, or all to a disk that is full, costs one reading."""
        if self.new:
            with suppress(OSError):
                write_json(HASHES, self.known)
