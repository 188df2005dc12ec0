"""Unfinished trainings that were started with other code or parameters: report them, or take one over."""

import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from rtm.core.errors import UserError
from rtm.core.files import read_json, reading, write_json
from rtm.core.layout import saved_states
from rtm.lineage.acceptance import trace
from rtm.lineage.format import JSON, whole_parts
from rtm.lineage.job import Job, Stage
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import Recording, run_folder
from rtm.pipeline.runs import book_of, is_running, log_rows

TAIL = 1 << 16  # bytes of a log that hold its last line


def note(folder: Path, recording: Recording) -> list[Any]:
    """Record the parameters and code of the run in its folder; return the reasons of earlier take-overs."""
    path = folder / "begun.json"
    if not path.exists():
        write_json(path, {"fingerprint": recording.fingerprint, "parts": recording.parts, "accepted": []})
    return list(_read(folder)["accepted"])


def names_of(folder: Path, fingerprint: str) -> list[str]:
    """The fingerprints that saves of a run may have: its own, and those from before it was taken over."""
    taken = _read(folder)["accepted"] if (folder / "begun.json").exists() else []
    return [fingerprint, *(str(each["fingerprint"]) for each in taken)]


def _read(folder: Path) -> JSON:
    """The record of the run: its parameters and code, and its earlier fingerprints."""
    path = folder / "begun.json"
    remedy = "delete it: the training resumes, unless it was taken over after a refactoring"
    with reading(path, remedy):
        begun: JSON = read_json(path, JSON, remedy)
        assert whole_parts(begun) and all(isinstance(each["fingerprint"], str) for each in begun["accepted"])
    return begun


def report_unfinished(ledger: Ledger, job: Job) -> None:
    """Before a new training starts, name the unfinished trainings of the same seed that cannot be resumed."""
    for folder in _unfinished(ledger, job):
        begun = _begun(folder)
        reasons = ledger.reasons(job, begun) if begun else []
        print(
            f"{folder} holds an unfinished training of this seed at step {step_of(folder)}, which is not resumed "
            f"because {'; '.join(reasons) or _unnamed(begun)}. After a refactoring that keeps the results, "
            f"`rtm lineage accept {job.id} --reason '…'` resumes it.",
            file=sys.stderr,
        )


def resumable(ledger: Ledger, job: Job) -> Path | None:
    """Of the unfinished runs that differ only by a refactoring, the one with most steps; an error if it runs now."""
    refactored = [
        folder
        for folder in _unfinished(ledger, job)
        if (begun := _begun(folder)) and not ledger.other_results(job, begun)
    ]
    if not refactored:
        return None
    folder = max(refactored, key=step_of)
    if busy := [each for each in (folder, run_folder(ledger, job)) if is_running(each)]:
        raise UserError(f"{busy[0]} is being trained; end that training first, then accept {job.id}.")
    return folder


def take_over(ledger: Ledger, job: Job, folder: Path, reason: str) -> Path:
    """Make an unfinished run resumable; return its new folder."""
    own, begun = run_folder(ledger, job), _read(folder)
    accepted = [*begun["accepted"], trace(ledger, job, begun, reason)]
    signed = {"fingerprint": ledger.fingerprint(job), "parts": ledger.parts(job), "accepted": accepted}
    ledger.keep_code(job)
    write_json(folder / "begun.json", signed)
    shutil.rmtree(own, ignore_errors=True)  # no state was saved in it
    folder.rename(own)
    return own


def _unnamed(begun: JSON | None) -> str:
    return "its code changed as accepted" if begun else "it does not record its code and parameters"


def _unfinished(ledger: Ledger, job: Job) -> list[Path]:
    """Other runs of the job's seed that have a save but are not finished; none if the job's own run has a save."""
    own = run_folder(ledger, job)
    if job.stage is not Stage.TRAIN or ledger.fresh(job) or _is_saved(own):
        return []
    return [folder for folder in sorted(own.parent.glob("*")) if _is_saved(folder) and _waits(folder, job)]


def _waits(folder: Path, job: Job) -> bool:
    book = book_of(folder)
    return book is not None and job.subject.seed == book.seed and book.slices[-1].ended != "done"


def _is_saved(folder: Path) -> bool:
    return any(path.exists() for path in saved_states(folder))


def _begun(folder: Path) -> JSON | None:
    with suppress(UserError):
        return _read(folder)
    return None


def step_of(folder: Path) -> int:
    """The last step in the log of a run."""
    return max((row.get("step", 0) for row in log_rows(folder / "log.jsonl", TAIL)), default=0)
