"""The commands that make missing results."""

from rtm.core.advice import make_command
from rtm.stages.base import Job


def making(job: Job, key: str | None = None, *options: str) -> str:
    """The command that makes a file of a job, on a cluster if a job behind it needs GPUs."""
    path = job.outputs[key] if key else job.first
    gpus = any(before.cost.gpus for before in job.upstream())
    return make_command(path, *options, gpus=gpus)


def missing(job: Job, key: str | None = None) -> str:
    """A sentence about a file of a job that is missing."""
    path = job.outputs[key] if key else job.first
    return f"{path} does not exist; make it first with `{making(job, key)}`."
