"""Run a job: checks before it starts, and its receipt at the end."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE, checkpoint_metadata, write_json
from rtm.core.layout import Layout, saved_states
from rtm.lineage.environment import environment, host, now, revision
from rtm.lineage.format import JSON
from rtm.lineage.job import Job, Stage
from rtm.lineage.receipts import Ledger, State


@dataclass
class Recording:
    """A running job: its fingerprint, the receipt of an earlier run, and facts for the new receipt (as GPU hours)."""

    fingerprint: str
    parts: JSON
    before: JSON = field(default_factory=dict)
    facts: JSON = field(default_factory=dict)


@contextmanager
def recorded(job: Job) -> Iterator[Recording]:
    """Run a job: compute its fingerprint first, and write the receipt last."""
    ledger = Ledger()
    _refuse_unknown_inputs(ledger, job)
    refuse_lost(ledger, job)
    before = ledger.receipt(job)
    recording = Recording(ledger.fingerprint(job), ledger.parts(job), before or {})
    ledger.keep_code(job)
    began, code = time.monotonic(), revision()  # now, because later commits do not change the running code
    yield recording
    seconds = time.monotonic() - began
    outputs = {str(path): ledger.hashes.described(path) for path in job.outputs if not job.temporary}
    made = {
        **host(),
        "seconds": round(seconds, 3),
        "gpu_hours": round(seconds / 3600 * job.compute.gpus, 3),
        "time": now(),
        "revision": code,
        "environment": environment(job.entries),
        **({"slurm_job": os.environ["SLURM_JOB_ID"]} if "SLURM_JOB_ID" in os.environ else {}),
        **recording.facts,
    }
    signed = {"fingerprint": recording.fingerprint, "parts": ledger.parts(job), "outputs": outputs}
    if before is None or {key: before[key] for key in signed} != signed:  # an equal receipt is not written again
        same = before is not None and ledger.matches(job, before)
        # nobody keeps features; if they are made again with other rounding, nothing needs to be trained again
        kept = {"identity": ledger.identity(job, job.outputs[0])} if same and job.keeper == "nobody" else {}
        write_json(job.receipt, {**signed, **kept, "made": made})
    ledger.hashes.save()


def refuse_lost(ledger: Ledger, job: Job) -> None:
    """Raise an error if a finished training would run again only because its weights or its receipt are missing or
    changed."""
    if job.stage is Stage.TRAIN and ledger.receipt(job) is None and _is_trained(ledger, job):
        raise UserError(f"{job.id} is trained, but it {unsigned(job)}, or delete {job.outputs[0]} to train it again.")
    if is_lost(ledger, job):
        folder = job.outputs[0].parent
        raise UserError(
            f"{job.id} is finished, but {'; '.join(ledger.why(job))}: bring it back with `dvc checkout {folder}` or "
            f"`dvc pull {folder}`, or delete {job.receipt} to train it again."
        )


def is_lost(ledger: Ledger, job: Job) -> bool:
    """Whether the outputs of a training with a receipt are missing or changed, and no save can write them again."""
    if job.stage is not Stage.TRAIN:
        return False
    state = ledger.state(job)
    return state is State.CHANGED or (state is State.ABSENT and not _can_finish(ledger, job))


def unsigned(job: Job) -> str:
    """A text about an output without a receipt: what to do."""
    return f"has no receipt: bring it back with `git checkout -- {job.receipt}` or `dvc checkout {job.receipt.parent}`"


def _is_trained(ledger: Ledger, job: Job) -> bool:
    """Whether the weights here belong to exactly this training, and no save can write them again."""
    with suppress(*UNREADABLE):
        run = checkpoint_metadata(job.outputs[0])["run"]
        return bool(run == ledger.fingerprint(job)) and not _can_finish(ledger, job)
    return False


def _can_finish(ledger: Ledger, job: Job) -> bool:
    """Whether a save of the training is here, which can write the weights again."""
    return any(path.exists() for path in saved_states(run_folder(ledger, job)))


def run_folder(ledger: Ledger, job: Job) -> Path:
    """The folder with the state of a training with the present parts."""
    return Layout(Path(job.root), Path(job.root)).run(str(job.subject.experiment), ledger.fingerprint(job))


def _refuse_unknown_inputs(ledger: Ledger, job: Job) -> None:
    """Raise an error for inputs without a true receipt. Only reports may show such inputs; then they stay stale."""
    if job.stage.is_view:
        return
    for before, path in job.reads():
        receipt = ledger.receipt(before)
        known = receipt is not None and path.exists() and not ledger.changed_outputs(receipt)
        if before.temporary:
            known = receipt is not None and ledger.matches(before, receipt)
        if not known:
            raise UserError(f"{job.id} needs {before.id}: {'; '.join(ledger.why(before))}. {ledger.advice(before)}")
