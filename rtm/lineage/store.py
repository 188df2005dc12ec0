"""Results by their content: a job finds its result again under any name, on any branch, in any clone.

The address of a result is a hash of its stage, its parameters and its inputs by content. It contains no name of an
experiment, a dataset or a file. The index has entries with this address: the receipt, and the md5 of each file by its
role. The bytes are objects of DVC's cache, so a file that DVC also keeps is stored once:

    <cache>/files/md5/ab/cdef...           objects, as DVC lays them out
    <cache>/rtm/index/<address>-<id>.json  entries
    <cache>/rtm/code/<hash>.json           definitions behind the code of entries, as in lineage/code/

A DVC remote has the same layout (`rtm.lineage.remote`). An entry is a hit if its code is the present code, or was
accepted as the same. The md5 of every file is checked before the file is put into the repository.
"""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE, digest, json_digest, temporary_of, write_json, write_text
from rtm.lineage.definitions import Graph
from rtm.lineage.format import JSON, code_file, recorded_graph, whole_receipt
from rtm.lineage.job import Job, Stage
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.recording import Recording, recorded
from rtm.lineage.remote import Remote

ALWAYS = (Stage.TRAIN,)  # always kept
LONG = (Stage.REFERENCE, Stage.GALLERY, Stage.EVALUATE)  # kept if they took at least this many
SECONDS = 180.0
KINDS = (*ALWAYS, *LONG)
NAMED = (Stage.EVALUATE,)  # only for jobs with the same name, because the file has the name of the experiment
LINKED = 1 << 20  # bytes; if a file has at least so many, it shares its space with its object
SWITCH = "RTM_STORE"  # "off": nothing comes from the store; "asked": Snakemake's plan has asked it already
STAGES = frozenset(map(str, Stage))
DVC = Path(".dvc")
Files = dict[str, JSON]  # by role: {"md5": ..., "size": ...}


def address(stage: str, parts: JSON) -> str | None:
    """The address of results with these parts; None if an input was never made."""
    inputs = sorted([_stage_of(name), identity or ""] for name, identity in parts["inputs"].items())
    if not all(identity for _, identity in inputs):
        return None
    return json_digest([stage, _set(parts["params"]), inputs])


def role(path: Path, root: str) -> str:
    """The role of a file among the outputs of its job, without names: "checkpoints/*.safetensors"."""
    return f"{Path(str(path).removeprefix(root)).parts[0]}/*{path.suffix}"


@dataclass(frozen=True)
class Entry:
    """A result in the index."""

    stage: str
    job: str  # the id of the job that made it
    receipt: JSON
    files: Files
    places: dict[str, Path] = field(default_factory=dict)  # by role: where a file may be if it is not in the cache

    @property
    def address(self) -> str | None:
        return address(self.stage, self.receipt["parts"])

    @property
    def code(self) -> str:
        return str(self.receipt["parts"]["code"])

    @property
    def id(self) -> str:
        return json_digest([self.address, self.code, self.files])[:16]

    @property
    def file(self) -> str:
        return f"{self.address}-{self.id}.json"

    @property
    def size(self) -> int:
        return sum(int(each["size"]) for each in self.files.values())

    @property
    def md5s(self) -> set[str]:
        return {str(each["md5"]) for each in self.files.values()}

    @property
    def made(self) -> JSON:
        return dict(self.receipt["made"])

    @property
    def name(self) -> str:
        """The name of the job, without scale and stage."""
        return self.job.split(f"{self.stage}/", 1)[1]

    def text(self) -> str:
        held = {"stage": self.stage, "job": self.job, "receipt": self.receipt, "files": self.files}
        return json.dumps(held, indent=2, sort_keys=True) + "\n"

    @classmethod
    def of(cls, text: str, file: str) -> "Entry":
        """The entry from the result of `text`. Other texts or addresses raise a ValueError, KeyError or TypeError."""
        held = json.loads(text)
        files = {str(key): {"md5": str(each["md5"]), "size": int(each["size"])} for key, each in held["files"].items()}
        entry = cls(str(held["stage"]), str(held["job"]), held["receipt"], files)
        hashes = [*((md5, 32) for md5 in entry.md5s), (entry.code, 16)]  # they are used as file names
        if not whole_receipt(entry.receipt) or not all(re.fullmatch(f"[0-9a-f]{{{n}}}", text) for text, n in hashes):
            raise ValueError("not an entry")
        if entry.file != file:
            raise ValueError("its name does not follow from its content")
        return entry


def entry_of(stage: str, job: str, root: str, receipt: JSON) -> Entry:
    """The entry for a receipt in the index. In all stages that are kept, each role has one file."""
    outputs = {role(Path(path), root): (Path(path), output) for path, output in receipt["outputs"].items()}
    files = {key: {"md5": output["md5"], "size": output["size"]} for key, (_, output) in outputs.items()}
    return Entry(stage, job, receipt, files, {key: path for key, (path, _) in outputs.items()})


class Shelf:
    """The store on this machine: DVC's cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.index, self.code = root / "rtm/index", root / "rtm/code"

    def object(self, md5: str) -> Path:
        return self.root / "files/md5" / md5[:2] / md5[2:]

    def entries(self, at: str = "") -> list[Entry]:
        found = []
        for path in sorted(self.index.glob(f"{at}*.json")):
            with suppress(*UNREADABLE):  # a damaged entry is skipped
                found.append(Entry.of(path.read_text(), path.name))
        return found

    def graph(self, code: str) -> Graph | None:
        return recorded_graph(self.code / f"{code}.json")

    def holds(self, file: JSON) -> bool:
        """Whether an object of the right size is there. Its bytes are checked before they are used."""
        with suppress(OSError):
            return bool(self.object(file["md5"]).stat().st_size == file["size"])
        return False

    def holds_all(self, entry: Entry) -> bool:
        return all(self.holds(file) for file in entry.files.values())

    def sound(self, file: JSON) -> bool:
        """Whether the bytes of an object have the md5 in its name. A damaged object is deleted, as in DVC."""
        if not self.holds(file):
            return False
        path = self.object(file["md5"])
        if digest(path, "md5") == file["md5"]:
            return True
        print(f"{path} is damaged: it is deleted, and not used.", file=sys.stderr)
        path.unlink(missing_ok=True)
        return False

    def keep(self, path: Path, file: JSON) -> None:
        """Put a file into the cache; the caller has checked its md5."""
        if not self.holds(file):
            place(path, self.object(file["md5"]), protected=True)

    def add(self, entry: Entry, graph: str) -> None:
        """Add an entry. It is written last, after everything that it needs."""
        if not (self.code / f"{entry.code}.json").exists():
            write_text(self.code / f"{entry.code}.json", graph)
        if not (self.index / entry.file).exists():
            write_text(self.index / entry.file, entry.text())


def place(source: Path, target: Path, protected: bool = False) -> None:
    """Put the bytes of `source` at `target`, too, completely or not at all.

    A large file shares its space with the source, by a reflink or else a hard link; if neither works, it is copied.
    Both names of a hard link are write-protected, as in DVC. Jobs replace files and never write into old ones.
    """
    from dvc_objects.fs import generic
    from dvc_objects.fs.local import LocalFileSystem

    target.parent.mkdir(parents=True, exist_ok=True)
    temporary, files = temporary_of(target), LocalFileSystem()
    real = source.resolve()
    try:
        generic.transfer(files, str(real), files, str(temporary), hardlink=real.stat().st_size >= LINKED)
        with suppress(OSError):  # in a shared cache, the object may belong to another user, who has protected it
            temporary.chmod(0o444 if protected or temporary.samefile(real) else 0o644)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def shelf_here() -> Shelf | None:
    """DVC's cache; None outside of a DVC repository."""
    if not (DVC / "config").exists():
        return None
    from dvc.config import Config

    chosen = Config(str(DVC.absolute()), validate=False)["cache"].get("dir")
    return Shelf(Path(chosen) if chosen else DVC / "cache")


@dataclass(frozen=True)
class StoredResult:
    """A stored result of this job, perhaps made with another name, and the receipt for it under the job's name."""

    entry: Entry
    receipt: JSON
    is_remote: bool

    def __str__(self) -> str:
        made, hours = self.entry.made, float(self.entry.made.get("gpu_hours") or 0)
        spent = f", {hours:,.0f} GPU-hours" if hours >= 1 else ""
        where = f" on {made['host']}" if "host" in made else ""
        return f"made as {self.entry.job}{where} at {made.get('time')}{spent}"


class Store:
    """The store in one process: first the shelf on this machine, then the remote, which is listed once."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.remote = Remote()

    @cached_property
    def shelf(self) -> Shelf | None:
        return None if os.environ.get(SWITCH) == "off" else shelf_here()

    def find(self, job: Job) -> StoredResult | None:
        """The stored result of a job that would run, if there is one. Its files are not read yet."""
        if job.stage not in KINDS or not self.ledger.sound(job) or self.shelf is None:
            return None
        at = address(job.stage, self.ledger.parts(job))
        if at is None:
            return None
        near = sorted([*self.shelf.entries(at), *self._receipts(job, at)], key=lambda each: str(each.made.get("time")))
        for entry in reversed(near):
            if self._fits(job, entry, self._graph(job, entry)) and self._is_here(job, entry):
                return StoredResult(entry, self._signed(job, entry), is_remote=False)
        for entry in self._distant(at):
            if self._fits(job, entry, self._graph(job, entry) or self.remote.graph(entry.code)):
                return StoredResult(entry, self._signed(job, entry), is_remote=True)
        return None

    def bring(self, job: Job, found: StoredResult) -> bool:
        """Put a result at the places of the job's outputs and write the receipt. If bytes are bad, print a message and
        return False."""
        assert self.shelf is not None
        files = {path: found.entry.files[role(path, job.root)] for path in job.outputs}
        for path, file in files.items():
            if not (self._is_at(path, file) or self._obtained(found, role(path, job.root))):
                print(f"{job.id} is in the store, but the store cannot give the bytes of {path}.", file=sys.stderr)
                return False
        self._keep_present(job)
        self._keep_graph(job, found.entry)
        for path, file in files.items():
            if not self._is_at(path, file):
                place(self.shelf.object(file["md5"]), path)
        write_json(job.receipt, found.receipt)
        self.ledger.hashes.save()
        return True

    def serve(self, job: Job) -> StoredResult | None:
        """If a job would run, bring its result from the store instead; return the found result."""
        waits = self.ledger.state(job) in (State.STALE, State.ABSENT)
        found = self.find(job) if waits else None
        if found is None or not self.bring(job, found):
            return None
        self.ledger.assume(job, found.receipt)
        print(f"{job.id} comes from the store, {found}.", file=sys.stderr)
        return found

    def keep(self, job: Job) -> Entry | None:
        """Put the result of a job into the store, if it is of a kind that is kept."""
        receipt = self.ledger.receipt(job)
        if receipt is None or not _is_kept(job.stage, receipt) or self.shelf is None:
            return None
        entry = entry_of(job.stage, job.id, job.root, receipt)
        if entry.address is None or not all(self._is_at(entry.places[key], entry.files[key]) for key in entry.files):
            return None
        for key, file in entry.files.items():
            self.shelf.keep(entry.places[key], file)
        self.shelf.add(entry, code_file(job, entry.code).read_text())
        return entry

    def _receipts(self, job: Job, at: str) -> Iterator[Entry]:
        """Entries from receipts of this scale with any name, also from jobs that do not exist any more."""
        for path in sorted((Path(job.root) / "lineage" / job.stage).rglob("*.json")):
            with suppress(*UNREADABLE):
                receipt = json.loads(path.read_text())
                kept_kind = whole_receipt(receipt) and _is_kept(job.stage, receipt)
                if kept_kind and address(job.stage, receipt["parts"]) == at:
                    name = path.relative_to(Path(job.root) / "lineage").with_suffix("")
                    yield entry_of(job.stage, f"{job.root}{name}", job.root, receipt)

    def _distant(self, at: str) -> Iterator[Entry]:
        for file in self.remote.files:
            text = self.remote.text(file) if file.startswith(f"{at}-") else None
            with suppress(*UNREADABLE):
                if text:
                    yield Entry.of(text, file)

    def _fits(self, job: Job, entry: Entry, graph: Graph | None) -> bool:
        """Whether an entry at the job's address is its result: it has the same code, the job's files and its name."""
        if {role(path, job.root) for path in job.outputs} != entry.files.keys():
            return False
        if job.stage in NAMED and job.name != entry.name:
            return False
        if self.ledger.state(job) is State.ABSENT and self._has_other_bytes(job, entry):
            return False
        same = entry.code == self.ledger.parts(job)["code"]
        return same or (graph is not None and self.ledger.same_code(job, graph))

    def _has_other_bytes(self, job: Job, entry: Entry) -> bool:
        """Whether the job's receipt, which is right, has other bytes, for example from another run of the training."""
        receipt = self.ledger.receipt(job)
        return receipt is None or entry_of(job.stage, job.id, job.root, receipt).files != entry.files

    def _signed(self, job: Job, entry: Entry) -> JSON:
        if self.ledger.state(job) is State.ABSENT:
            return self.ledger.receipt(job) or {}
        outputs = {str(path): entry.files[role(path, job.root)] for path in job.outputs}
        return self.ledger.adopted(job, entry.receipt, outputs, {"entry": entry.id, "job": entry.job})

    def _graph(self, job: Job, entry: Entry) -> Graph | None:
        return recorded_graph(code_file(job, entry.code)) or (self.shelf.graph(entry.code) if self.shelf else None)

    def _keep_graph(self, job: Job, entry: Entry) -> None:
        """Write the definitions of an entry's code to lineage/code/; receipts with accepted code need them."""
        path = code_file(job, entry.code)
        graph = None if path.exists() else self._graph(job, entry) or self.remote.graph(entry.code)
        if graph is not None:
            write_text(path, graph.text())
        self.ledger.keep_code(job)

    def _keep_present(self, job: Job) -> None:
        """Put the job's present result into the store before it is replaced."""
        with suppress(UserError, OSError):
            self.keep(job)

    def _is_here(self, job: Job, entry: Entry) -> bool:
        return all(
            self._is_at(path, entry.files[key]) or self._is_near(entry, key)
            for path in job.outputs
            for key in [role(path, job.root)]
        )

    def _is_near(self, entry: Entry, key: str) -> bool:
        file = entry.files[key]
        assert self.shelf is not None
        return self.shelf.holds(file) or (key in entry.places and self._is_at(entry.places[key], file))

    def _is_at(self, path: Path, file: JSON) -> bool:
        return path.is_file() and self.ledger.hashes.described(path, like=file) == file

    def _obtained(self, found: StoredResult, key: str) -> bool:
        """Whether the cache has the file, after fetching it if necessary; all its bytes are checked."""
        file, entry = found.entry.files[key], found.entry
        assert self.shelf is not None
        if self.shelf.sound(file):
            return True
        if key in entry.places and self._is_at(entry.places[key], file):
            self.shelf.keep(entry.places[key], file)
        else:
            self.remote.get(file["md5"], self.shelf.object(file["md5"]))
        return self.shelf.sound(file)


def served(job: Job) -> bool:
    """Bring the result of a job from the store, if possible. A verb calls this first; if true, nothing must run."""
    if os.environ.get(SWITCH):
        return False
    return Store(Ledger()).serve(job) is not None


@contextmanager
def kept(job: Job) -> Iterator[Recording]:
    """Run a job, leave its receipt, and keep its result. A store that fails does not fail the job."""
    with recorded(job) as recording:
        yield recording
    try:
        Store(Ledger()).keep(job)
    except (OSError, UserError) as error:
        print(f"{job.id} is finished, but could not be put into the store: {error}", file=sys.stderr)


def _is_kept(stage: Stage, receipt: JSON) -> bool:
    return stage in ALWAYS or (stage in LONG and float(receipt["made"].get("seconds") or 0) >= SECONDS)


def _stage_of(job: str) -> str:
    """The stage in an id; the scale may come before it."""
    return next(part for part in job.split("/") if part in STAGES)


def _set(value: Any) -> Any:
    """A value without keys that are null, because receipts treat null as absent."""
    if isinstance(value, dict):
        return {key: _set(each) for key, each in value.items() if each is not None}
    return [_set(each) for each in value] if isinstance(value, list) else value
