"""Run a job: checks before it starts, and its receipt at the end."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rtm.core.errors import UserError
from rtm.core.files import write_json
from rtm.core.readers import UNREADABLE, checkpoint_metadata
from rtm.lineage import cache
from rtm.lineage.begun import run_folder
from rtm.lineage.earlier import SWITCH, Earlier
from rtm.lineage.environment import environment, host, now, revision
from rtm.lineage.freshness import Freshness, State
from rtm.lineage.receipts import JSON
from rtm.stages.base import Job, Recording
from rtm.training.folder import has_save


def run(job: Job, **options: Any) -> None:
    """Make a job and sign for it. A training's processes (RANK) leave the receipt to the process that started them."""
    freshness = Freshness()
    if "RANK" in os.environ:
        job.stage.make(job, Recording(freshness.fingerprint(job), freshness.parts(job)), **options)
        return
    if job.stage.name == "train" and freshness.is_fresh(job):  # Snakemake forces a job if it did not see its end
        print(f"{job.id} is finished; there is nothing to do.")
        return
    if SWITCH not in os.environ and Earlier(freshness).serve(job):
        return
    with recorded(job) as recording:
        job.stage.make(job, recording, **options)
    cache.keep(job)


@contextmanager
def recorded(job: Job) -> Iterator[Recording]:
    """Compute what a job is made from first, and write its receipt last."""
    freshness = Freshness()
    _refuse_unknown_inputs(freshness, job)
    refuse_lost(freshness, job)
    before = freshness.receipt(job)
    recording = Recording(freshness.fingerprint(job), freshness.parts(job), before or {})
    code = revision()  # now, because later commits do not change the running code
    began = time.monotonic()
    yield recording
    signed: JSON = {
        "fingerprint": recording.fingerprint,
        "parts": recording.parts,
        "outputs": {str(path): freshness.hashes.described(path) for path in job.outputs.values()},
    }
    freshness.hashes.save()
    if before is not None and {key: before[key] for key in signed} == signed:
        return  # an equal receipt is not written again
    if before is not None and job.keeper == "nobody" and freshness.matches(job, before):
        # the files were made again with other rounding; what was made from the first ones stays fresh
        signed["identity"] = freshness.identity(job, job.first)
    made = _made(job, time.monotonic() - began) | {"revision": code} | recording.facts
    cache.remember(before)
    write_json(job.receipt, {**signed, "made": made})


def _made(job: Job, seconds: float) -> JSON:
    slurm = {"slurm_job": os.environ["SLURM_JOB_ID"]} if "SLURM_JOB_ID" in os.environ else {}
    return {
        **host(),
        "seconds": round(seconds, 3),
        "gpu_hours": round(seconds / 3600 * job.cost.gpus, 3),
        "time": now(),
        "environment": environment(),
        **slurm,
    }


def refuse_lost(freshness: Freshness, job: Job) -> None:
    """Raise an error if a finished training would run again only because its weights or its receipt are missing or
    changed."""
    if job.stage.name == "train" and freshness.receipt(job) is None and _is_trained(freshness, job):
        raise UserError(f"{job.id} is trained, but it {unsigned(job)}, or delete {job.first} to train it again.")
    if is_lost(freshness, job):
        folder = job.first.parent
        raise UserError(
            f"{job.id} is finished, but {'; '.join(freshness.why(job))}: bring it back with `dvc checkout {folder}` or "
            f"`dvc pull {folder}`, or delete {job.receipt} to train it again."
        )


def is_lost(freshness: Freshness, job: Job) -> bool:
    """Whether the outputs of a training with a receipt are missing or changed, and no save can write them again."""
    if job.stage.name != "train":
        return False
    state = freshness.state(job)
    return state is State.CHANGED or (state is State.ABSENT and not _can_finish(freshness, job))


def unsigned(job: Job) -> str:
    """A text about an output without a receipt: what to do."""
    return f"has no receipt: bring it back with `git checkout -- {job.receipt}` or `dvc checkout {job.receipt.parent}`"


def _is_trained(freshness: Freshness, job: Job) -> bool:
    """Whether the weights here belong to exactly this training, and no save can write them again."""
    with suppress(*UNREADABLE):
        run = checkpoint_metadata(job.first)["run"]
        return bool(run == freshness.fingerprint(job)) and not _can_finish(freshness, job)
    return False


def _can_finish(freshness: Freshness, job: Job) -> bool:
    """Whether a save of the training is here, which can write the weights again."""
    return has_save(run_folder(job, freshness.parts(job)))


def _refuse_unknown_inputs(freshness: Freshness, job: Job) -> None:
    """Raise an error for inputs without a true receipt. Only reports may show such inputs; then they stay stale."""
    if job.stage.shows:
        return
    for before, path in job.reads():
        receipt = freshness.receipt(before)
        if receipt is None or not path.exists() or freshness.changed_files(receipt):
            why = "; ".join(freshness.why(before))
            raise UserError(f"{job.id} needs {before.id}: {why}. {freshness.advice(before)}")
