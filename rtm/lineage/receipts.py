"""Staleness by content: fingerprints, receipts, and the one answer to "must this run again?".

A job's fingerprint is a hash of its parts: parameters by value, code by content (`rtm.fingerprint`), and inputs by
the bytes that the jobs before it left. A finished job writes a receipt last (git keeps lineage/): those parts, and
the md5 of its outputs. A job is fresh while its receipt names the present parts, or code that was accepted as the
same (`rtm.equivalence`), and its outputs are the recorded ones; Snakemake and DVC both ask here. No clock is looked
at, so a clone, a pull or a touch makes nothing stale.
"""

import getpass
import hashlib
import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from rtm.core.errors import UserError
from rtm.core.files import (
    UNREADABLE,
    checkpoint_metadata,
    digest,
    make_command,
    matches,
    read_json,
    write_json,
    write_text,
)
from rtm.core.layout import Layout, saved_states
from rtm.lineage.environment import environment
from rtm.lineage.equivalence import Comparison, Line, Pair, read_lines, smallest
from rtm.lineage.fingerprint import Graph, present
from rtm.lineage.job import Job, Stage

HASHES = Path(".snakemake/rtm/md5.json")  # md5 by path, size and time: a large file is read once
JSON = dict[str, Any]
ABSENT = "absent"  # shown for a value whose key is not there; strings have quotes
MORE = ConfigDict(extra="allow")
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_NOTHING = object()


class Parts(TypedDict):
    params: JSON
    code: str
    inputs: dict[str, str | None]


class Output(TypedDict):
    md5: str
    size: Count


class Made(TypedDict, total=False):
    __pydantic_config__ = MORE  # type: ignore[misc]
    host: str
    time: str
    seconds: Positive
    gpu_hours: Positive | None
    revision: str | None
    environment: dict[str, str]
    slurm_job: str
    slurm_jobs: list[str]


class Signed(TypedDict):
    __pydantic_config__ = MORE  # type: ignore[misc]
    fingerprint: str
    parts: Parts


class Receipt(Signed):
    outputs: dict[str, Output]
    made: Made
    identity: NotRequired[str]


class State(Enum):
    FRESH = "fresh"
    ABSENT = "absent"  # the receipt is right, but outputs are not here: pulled or made again at need
    CHANGED = "changed"  # the outputs here are not the recorded ones
    STALE = "stale"


class Ledger:
    """Receipts and files as they are now, each read once."""

    def __init__(self) -> None:
        self.hashes = _Hashes()
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
        """What a job depends on, as it is now; temporary jobs before it count as parts of it."""
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
        """Leave the definitions behind the present hash of a job's code beside the receipts."""
        path = code_file(job, self.parts(job)["code"])
        if not path.exists():
            write_text(path, present().graph(_entries(job)).text())

    @property
    def lines(self) -> tuple[Line, ...]:
        """What was accepted as the same."""
        if self._lines is None:
            self._lines = read_lines()
        return self._lines

    def compared(self, job: Job, receipt: JSON) -> Comparison | None:
        """The code of a receipt and the present code; none if the definitions of the receipt are lost."""
        path, now = code_file(job, receipt["parts"]["code"]), self.parts(job)["code"]
        if (path, now) not in self._compared:
            old = recorded_graph(path)
            found = Comparison(old, present().graph(_entries(job)), self.lines) if old else None
            self._compared[path, now] = found
        return self._compared[path, now]

    def _code(self, job: Job, receipt: JSON) -> list[str]:
        """Since the receipt, the definitions that changed."""
        recorded = receipt["parts"]["code"]
        if recorded == self.parts(job)["code"]:
            return []
        compared = self.compared(job, receipt)
        return compared.reasons if compared else [f"code changed, and {code_file(job, recorded)} is missing or damaged"]

    def fingerprint(self, job: Job) -> str:
        return _fingerprint(job, self.parts(job))

    def identity(self, job: Job, read: Path) -> str | None:
        """A job's outputs as others depend on them: by their bytes, or those that they were made again in place of.

        Of a training only the file that is read counts: the curve holds times, which differ in every run.
        """
        receipt = self.receipt(job)
        if receipt is None:
            return None
        steady = receipt["outputs"].keys() - set(map(str, job.volatile))
        counts = {str(read)} if read in job.volatile else steady
        md5s = [output["md5"] for name, output in receipt["outputs"].items() if name in counts]
        return receipt.get("identity") or _hash(md5s)

    def state(self, job: Job) -> State:
        if job.id not in self._states:
            self._states[job.id] = self._state(job)
        return self._states[job.id]

    def _state(self, job: Job) -> State:
        receipt = self.receipt(job)
        if job.temporary and not job.outputs[0].exists():
            return State.ABSENT if self.sound(job) else State.STALE
        if receipt is None or not self.sound(job) or self._untrue(job, receipt) or self._differences(job, receipt):
            return State.STALE
        if self.changed_outputs(receipt):
            return State.CHANGED
        return State.FRESH if all(path.exists() for path in job.outputs) else State.ABSENT

    def sound(self, job: Job) -> bool:
        """Whether everything before the job is as recorded, here or elsewhere."""
        return all(self._usable(before) for before in job.inputs)

    def assume(self, job: Job, receipt: JSON) -> None:
        """Take a job as fresh with this receipt: its result comes from the store."""
        self._receipts[job.id] = receipt
        self._assumed.add(job.id)
        self._states = dict.fromkeys(self._assumed, State.FRESH)
        self._parts.clear()

    def same_code(self, job: Job, graph: Graph) -> bool:
        """Whether this code is the present code, or was accepted as the same."""
        return Comparison(graph, present().graph(_entries(job)), self.lines).equal()

    def adopted(self, job: Job, receipt: JSON, outputs: JSON, source: JSON) -> JSON:
        """The receipt of the same result under another name, as a receipt of this job."""
        parts = {**receipt["parts"], **{part: self.parts(job)[part] for part in ("params", "inputs")}}
        signed = {"fingerprint": _fingerprint(job, parts), "parts": parts, "outputs": outputs}
        return {**receipt, **signed, "from": source}

    def fresh(self, job: Job) -> bool:
        return self.state(job) is State.FRESH

    def why(self, job: Job) -> list[str]:
        """What made the job stale, by name; nothing if it is fresh."""
        receipt = self.receipt(job)
        missing = [f"{path} is not here" for path in job.outputs if not path.exists()]
        if receipt is None:
            return ["it was never made", *self._stale_inputs(job)]
        reasons = [*self._untrue(job, receipt), *self._differences(job, receipt), *self._stale_inputs(job)]
        return [*reasons, *self.changed_outputs(receipt), *missing]

    def _untrue(self, job: Job, receipt: JSON) -> list[str]:
        """What in a receipt cannot be: written by hand, or merged badly."""
        outputs = {str(path) for path in job.outputs}
        if receipt["fingerprint"] != _fingerprint(job, receipt["parts"]):
            return [f"{job.receipt} was edited: its fingerprint does not follow from its parts"]
        if not job.temporary and receipt["outputs"].keys() != outputs:
            return [f"{job.receipt} names other outputs: {', '.join(sorted(receipt['outputs'].keys() ^ outputs))}"]
        return []

    def differences(self, job: Job, receipt: JSON) -> dict[str, list[str]]:
        """Since the receipt, by part: parameters old -> new, definitions, inputs."""
        old, new = receipt["parts"], self.parts(job)
        changed = {part: list(_changes(old[part], new[part])) for part in ("params", "inputs")}
        return {
            "params": [f"{where}: {before} -> {after}" for where, before, after in changed["params"]],
            "code": self._code(job, receipt),
            "inputs": [f"{name} has a new result" for name, *_ in changed["inputs"]],
        }

    def _differences(self, job: Job, receipt: JSON) -> list[str]:
        return [reason for part in self.differences(job, receipt).values() for reason in part]

    def matches(self, job: Job, receipt: JSON) -> bool:
        """Whether a receipt is of the present parts."""
        return not (self._untrue(job, receipt) or self._differences(job, receipt))

    def other_results(self, job: Job, receipt: JSON) -> list[str]:
        """Differences that no refactoring makes: other values under the same name, null among them; other inputs."""
        old, new = receipt["parts"], self.parts(job)
        changes = [*_changes(old["params"], new["params"]), *_changes(old["inputs"], new["inputs"])]
        return [f"{where} has another value" for where, *values in changes if ABSENT not in values]

    def _stale_inputs(self, job: Job) -> list[str]:
        return [f"{before.id} is {self.state(before).value}" for before in job.inputs if not self._usable(before)]

    def _usable(self, job: Job) -> bool:
        return self.sound(job) if job.temporary else self.state(job) in (State.FRESH, State.ABSENT)

    def changed_outputs(self, receipt: JSON) -> list[str]:
        """Outputs that are here with other bytes than recorded."""
        return [
            f"{path} is not the recorded one"
            for path, recorded in receipt["outputs"].items()
            if Path(path).exists() and self.hashes.described(Path(path), like=recorded) != recorded
        ]

    def untrue(self, job: Job) -> list[str]:
        """What is wrong in a receipt."""
        receipt = self.receipt(job)
        return [*self._untrue(job, receipt), *self.changed_outputs(receipt)] if receipt else []

    def verify(self, job: Job) -> None:
        """Refuse a job that is not fresh, with the reason and what to do."""
        if not self.fresh(job):
            raise UserError(f"{job.id} is {self.state(job).value}: {'; '.join(self.why(job))}. {self.advice(job)}")

    def advice(self, job: Job) -> str:
        """The command that puts a state right."""
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

    def refuse_other(self, job: Job) -> None:
        """Refuse to accept what no refactoring makes."""
        receipt = self.receipt(job)
        if receipt is None:
            raise UserError(f"{job.id} was never made, so there is nothing to accept. {self.advice(job)}")
        if problems := [*self._untrue(job, receipt), *self.changed_outputs(receipt), *self.other_results(job, receipt)]:
            raise UserError(f"{job.id} cannot be accepted: {'; '.join(problems)}. {self.advice(job)}")

    def proposed(self, job: Job, reason: str) -> list[Line]:
        """The definitions that must be accepted as the same for the code of a receipt to be the present code."""
        receipt = self.receipt(job)
        assert receipt is not None
        reasons = self._code(job, receipt)
        if not reasons:
            return []
        compared = self.compared(job, receipt)
        pairs = tuple(compared.changed) if compared else ()
        if compared is None or not compared.equal(pairs):
            raise UserError(f"{job.id} cannot be accepted: {'; '.join(reasons)}. {self.advice(job)}")
        facts = {"reason": reason, "author": _author(), "revision": _revision(), "time": _now()}
        return [compared.line(pair, facts) for pair in pairs]

    def smallest(self, lines: Iterable[Line]) -> list[Line]:
        """The lines without those that follow from the others."""
        return smallest(lines, [compared for compared in self._compared.values() if compared])

    def stands(self, job: Job) -> bool:
        """Whether a receipt and the outputs here are of the present parts, whatever those before it are."""
        receipt = self.receipt(job)
        return job.temporary or bool(receipt and self.matches(job, receipt) and not self.changed_outputs(receipt))

    def kept_by(self, job: Job, pairs: tuple[Pair, ...]) -> bool:
        """Whether a receipt's code is the present code once the pairs are accepted, and only then."""
        with suppress(UserError):  # a receipt that cannot be read keeps nothing
            receipt = None if job.temporary else self.receipt(job)
            changed = self.differences(job, receipt) if receipt else {}
            if receipt and changed["code"] and not (changed["params"] or changed["inputs"]):
                compared = self.compared(job, receipt)
                return compared is not None and compared.equal(pairs)
        return False

    def must_sign(self, job: Job) -> bool:
        """Whether keys of parameters or inputs came or went, for which a receipt is signed anew."""
        receipt = self.receipt(job)
        changed = self.differences(job, receipt) if receipt else {"params": [], "inputs": []}
        return bool(changed["params"] or changed["inputs"])

    def sign(self, job: Job, reason: str) -> None:
        """Sign a receipt anew for the present parts, with a trace."""
        receipt = self.receipt(job)
        assert receipt is not None
        signed = {"fingerprint": self.fingerprint(job), "parts": self.parts(job)}
        accepted = [*receipt.get("accepted", []), self.trace(job, receipt, reason)]
        self.keep_code(job)
        write_json(job.receipt, {**receipt, **signed, "accepted": accepted})

    def accepted(self, job: Job) -> list[Line]:
        """The acceptances that keep a receipt's code equal to the present code."""
        receipt = self.receipt(job)
        if receipt is None or receipt["parts"]["code"] == self.parts(job)["code"]:
            return []
        compared = self.compared(job, receipt)
        ids = {*compared.old, *compared.new} if compared else set()
        return [line for line in self.lines if ids & set(line.pair)]

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
    ledger.keep_code(job)
    began = time.monotonic()
    yield recording
    seconds = time.monotonic() - began
    outputs = {str(path): ledger.hashes.described(path) for path in job.outputs if not job.temporary}
    made = {
        **_host(),
        "seconds": round(seconds, 3),
        "gpu_hours": round(seconds / 3600 * job.compute.gpus, 3),
        "time": _now(),
        "revision": _revision(),
        "environment": environment(job.entries),
        **({"slurm_job": os.environ["SLURM_JOB_ID"]} if "SLURM_JOB_ID" in os.environ else {}),
        **recording.facts,
    }
    signed = {"fingerprint": recording.fingerprint, "parts": ledger.parts(job), "outputs": outputs}
    if before is None or {key: before[key] for key in signed} != signed:  # the same again leaves git as it is
        same = before is not None and ledger.matches(job, before)
        # nobody keeps features, and another processor rounds them otherwise: no reason to train anything again
        kept = {"identity": ledger.identity(job, job.outputs[0])} if same and job.keeper == "nobody" else {}
        write_json(job.receipt, {**signed, **kept, "made": made})
    ledger.hashes.save()


def refuse_lost(ledger: Ledger, job: Job) -> None:
    """Keep a finished training from being done again because its weights or its receipt are elsewhere or changed."""
    if job.stage is Stage.TRAIN and ledger.receipt(job) is None and _is_trained(ledger, job):
        raise UserError(f"{job.id} is trained, but it {unsigned(job)}, or delete {job.outputs[0]} to train it again.")
    if job.stage is not Stage.TRAIN or ledger.state(job) not in (State.ABSENT, State.CHANGED):
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
    return Layout(Path(job.root), Path(job.root)).run(str(job.subject.experiment), ledger.fingerprint(job))


def _refuse_unknown_inputs(ledger: Ledger, job: Job) -> None:
    """Files nobody signed for are used by reports alone, which then stay stale."""
    if job.stage.is_view:
        return
    for before, path in job.reads():
        receipt = ledger.receipt(before)
        known = receipt is not None and path.exists() and not ledger.changed_outputs(receipt)
        if before.temporary:
            known = receipt is not None and ledger.matches(before, receipt)
        if not known:
            raise UserError(f"{job.id} needs {before.id}: {'; '.join(ledger.why(before))}. {ledger.advice(before)}")


def read_receipt(receipt: Path) -> JSON:
    kept = f"bring it back with `git checkout -- {receipt}` or `dvc checkout {receipt}`"
    return dict(read_json(receipt, Receipt, f"{kept}, or delete it and have what it signed for made again"))


def whole_receipt(value: Any) -> bool:
    return matches(value, Receipt)


def whole_parts(value: Any) -> bool:
    return matches(value, Signed)


def code_file(job: Job, root: str) -> Path:
    return Layout(Path(job.root), Path(job.root)).code(root)


def recorded_graph(path: Path) -> Graph | None:
    """The definitions behind a hash, if the file has them and its name follows from them."""
    with suppress(*UNREADABLE):
        graph = Graph.of(path.read_text())
        return graph if graph.root == path.stem and graph.follows() else None
    return None


def _through(job: Job) -> list[Job]:
    return [before for before in job.inputs if before.temporary]


def _entries(job: Job) -> tuple[str, ...]:
    """The code of a job and of the temporary jobs before it."""
    return tuple(entry for each in (job, *_through(job)) for entry in each.entries)


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


def _host() -> dict[str, str]:
    """This machine's name, or the one that RTM_HOST gives it; nothing if that is empty."""
    name = os.environ.get("RTM_HOST", platform.node())
    return {"host": name} if name else {}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _author() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(["git", "config", "user.name"], capture_output=True, text=True, check=True).stdout.strip()
    return getpass.getuser()


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
        with suppress(UserError):  # a damaged memory is none
            self.known = read_json(HASHES, dict[str, dict[Literal["key", "md5"], str]])

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
