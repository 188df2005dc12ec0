"""Refuse results whose bytes are not the ones of their receipts."""

from pathlib import Path

from rtm.core.advice import back
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.lineage.freshness import Freshness
from rtm.lineage.receipts import JSON, contradictions, read_receipt
from rtm.lineage.recording import unsigned
from rtm.stages.base import Job


def receipt_of(job: Job, path: Path) -> JSON:
    """The receipt of a job; an error if it is not of this file."""
    if not job.receipt.exists():
        raise UserError(f"{path} {unsigned(job)}, or draw from the file: `rtm generate {path}`.")
    receipt = read_receipt(job.receipt)
    if faults := contradictions(job, receipt):
        raise UserError(f"{faults[0]}; bring it back with `git checkout -- {job.receipt}`.")
    if receipt["outputs"][str(path)]["md5"] != digest(path, "md5"):
        raise UserError(f"{path} is not the file of its receipt; bring it back with `dvc checkout {path}`.")
    return receipt


def refuse_changed(job: Job, remedy: str = "") -> None:
    """Raise an error if a file that the job reads is not the one that its receipt records. Files without a receipt may
    be shown; then the job is stale."""
    freshness = Freshness()
    faults = []
    for before, path in job.reads():
        receipt = freshness.receipt(before)
        if receipt is None:
            continue
        faults += contradictions(before, receipt)
        recorded = receipt["outputs"].get(str(path))
        if recorded and path.exists() and freshness.hashes.described(path, like=recorded) != recorded:
            faults.append(f"{path} is not the recorded one; {back(path)}")
    freshness.hashes.save()
    if faults:
        others = f" ({len(faults) - 1} more inputs are not as recorded)" if faults[1:] else ""
        raise UserError(f"{faults[0]}{others}{remedy}.")
