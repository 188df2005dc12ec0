"""Results that were made before: their bytes are in DVC's cache or remote, their receipts in git.

A parameter that is set back, a renamed experiment or a merged branch makes a job stale whose result exists. Its receipt
is in the working tree, in git's history, or in DVC's cache, which keeps each receipt that a new one replaces. If the
bytes are in the cache, in git, in DVC's remote or still in place, the job takes them instead of making them again.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from rtm.core.files import json_digest, write_json
from rtm.core.readers import UNREADABLE
from rtm.lineage import cache
from rtm.lineage.freshness import Freshness, State
from rtm.lineage.history import committed_versions
from rtm.lineage.receipts import JSON, fingerprint_of, is_receipt
from rtm.stages import stages
from rtm.stages.base import Job

NAMED = ("evaluate",)  # the files have the experiment's name inside, so they fit no other name
SWITCH = "RTM_CACHE"  # "off": every stale job runs; "asked": Snakemake has looked already
WAITING = (State.STALE, State.ABSENT)
Places = dict[Path, tuple[JSON, Path]]  # of a job's files: md5 and size, and where an earlier job made it


class Earlier:
    """The results that were made before, by their content. Receipts are read once."""

    def __init__(self, freshness: Freshness) -> None:
        self.freshness = freshness
        self._receipts: dict[str, dict[str, list[JSON]]] = {}

    def find(self, job: Job) -> JSON | None:
        """The newest receipt, of any name, with the job's values, inputs and code, whose files can be had."""
        is_off = os.environ.get(SWITCH) == "off" or cache.folder() is None
        if is_off or job.stage.name not in cache.KEPT or not self.freshness.has_inputs(job):
            return None
        if own := self._absent(job):  # two runs of a training give different bytes
            return own if self._can_be_had(job, own) else None
        wanted = address(job.stage.name, self.freshness.parts(job))
        for receipt in sorted(self._of(job.stage.name)[wanted], key=_time, reverse=True):
            is_same_code = self.freshness.is_same_code(job, receipt["parts"]["code"])
            if is_same_code and self._fits(job, receipt) and self._can_be_had(job, receipt):
                return receipt
        return None

    def serve(self, job: Job) -> bool:
        """Take the result of a stale job from the cache, if it is there, and sign for it."""
        if self.freshness.state(job) not in WAITING:
            return False
        receipt = self.find(job)
        if receipt is None or not self.bring(job, receipt):
            return False
        print(f"{job.id} comes from DVC's cache, {described(receipt)}.", file=sys.stderr)
        return True

    def bring(self, job: Job, receipt: JSON) -> bool:
        """Put the files of an earlier result at the places of the job's outputs, and write the job's receipt."""
        places = _places(job, receipt)
        for path, (recorded, source) in places.items():
            if not (self._is_at(path, recorded) or self._obtain(job, recorded, source)):
                print(f"{job.id} was made before, but the bytes of {path} are lost.", file=sys.stderr)
                return False
        cache.keep(job)
        for path, (recorded, _) in places.items():
            if not self._is_at(path, recorded):
                cache.place(cache.object_of(recorded), path)
        signed = self.signed(job, receipt)
        cache.remember(self.freshness.receipt(job))
        write_json(job.receipt, signed)
        self.freshness.hashes.save()
        self.freshness.assume(job, signed)
        return True

    def signed(self, job: Job, receipt: JSON) -> JSON:
        """The receipt of the job for an earlier result."""
        if receipt is self._absent(job):
            return receipt
        parts = {**self.freshness.parts(job), "code": receipt["parts"]["code"]}
        outputs = {str(path): recorded for path, (recorded, _) in _places(job, receipt).items()}
        return {**receipt, "fingerprint": fingerprint_of(job.stage.name, parts), "parts": parts, "outputs": outputs}

    def _absent(self, job: Job) -> JSON | None:
        """The job's own receipt, if only its files are not here."""
        is_absent = self.freshness.state(job) is State.ABSENT
        return self.freshness.receipt(job) if is_absent else None

    def _of(self, stage: str) -> dict[str, list[JSON]]:
        """The receipts of a stage of all scales, by address."""
        if stage not in self._receipts:
            by_address = self._receipts[stage] = defaultdict(list)
            for text in _texts(stage):
                with suppress(*UNREADABLE):  # a damaged receipt is no result
                    receipt = json.loads(text)
                    if is_receipt(receipt):
                        by_address[address(stage, receipt["parts"])].append(receipt)
        return self._receipts[stage]

    def _fits(self, job: Job, receipt: JSON) -> bool:
        """Whether the files of a result are those of the job."""
        places = _places(job, receipt)
        if not len(places) == len(job.outputs) == len(receipt["outputs"]):
            return False
        is_renamed = any(path != source for path, (_, source) in places.items())
        return not (is_renamed and job.stage.name in NAMED)

    def _can_be_had(self, job: Job, receipt: JSON) -> bool:
        remote = cache.remote(job.config.scale.remote)
        return all(
            cache.holds(recorded)
            or self._is_at(path, recorded)
            or self._is_at(source, recorded)
            or cache.committed(source, recorded) is not None
            or remote.has(recorded)
            for path, (recorded, source) in _places(job, receipt).items()
        )

    def _obtain(self, job: Job, recorded: JSON, source: Path) -> bool:
        """Whether the cache has the file, after fetching it if necessary; all its bytes are checked."""
        if cache.is_sound(recorded):
            return True
        if self._is_at(source, recorded):
            cache.put(source, recorded)
        elif not cache.put_committed(source, recorded):
            cache.remote(job.config.scale.remote).get(recorded)
        return cache.is_sound(recorded)

    def _is_at(self, path: Path, recorded: JSON) -> bool:
        return path.is_file() and self.freshness.hashes.described(path, like=recorded) == recorded


def described(receipt: JSON) -> str:
    """When, where and at what cost a result was made."""
    made = receipt["made"]
    gpu_hours = float(made.get("gpu_hours") or 0)
    where = f" on {made['host']}" if "host" in made else ""
    cost = f", {gpu_hours:,.0f} GPU-hours" if gpu_hours >= 1 else ""
    return f"made{where} at {_time(receipt)}{cost}"


def _time(receipt: JSON) -> str:
    return str(receipt["made"].get("time"))


def address(stage: str, parts: JSON) -> str:
    """A hash of the values and inputs of a result, without names of experiments, datasets and files."""
    inputs = sorted([_stage_of(name), identity or ""] for name, identity in parts["inputs"].items())
    return json_digest([stage, _set(parts["params"]), inputs])


def _texts(stage: str) -> Iterator[str]:
    """The receipts of a stage: now, in every commit, and those that were replaced on this machine."""
    paths = list(cache.receipts().glob("*.json"))
    for scale in ("", "*/", "*/*/"):
        paths += Path().glob(f"{scale}lineage/{stage}/**/*.json")
    for path in paths:
        with suppress(*UNREADABLE):
            yield path.read_text("utf-8")
    for version in committed_versions(f":(glob)**/lineage/{stage}/**"):
        yield version.decode(errors="replace")


def _places(job: Job, receipt: JSON) -> Places:
    """The job's files, each with the recorded file of the same kind."""
    sources = {Path(name): recorded for name, recorded in receipt["outputs"].items()}
    by_suffix = {source.suffix: (recorded, source) for source, recorded in sources.items()}
    return {path: by_suffix[path.suffix] for path in job.outputs.values() if path.suffix in by_suffix}


def _stage_of(job: str) -> str:
    """The stage in an id; the scale may come before it."""
    return next(part for part in job.split("/") if part in stages())


def _set(value: Any) -> Any:
    """A value without keys that are null, because receipts treat null as absent."""
    if isinstance(value, dict):
        return {key: _set(below) for key, below in value.items() if below is not None}
    return [_set(below) for below in value] if isinstance(value, list) else value
