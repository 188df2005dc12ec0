"""What SLURM's queue holds of this repository's jobs; nothing where there is no SLURM."""

import getpass
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rtm.config.experiments import Resources
from rtm.core.errors import UserError

TIMEOUT = 20  # seconds: a controller that is away must not hold up whoever only looks
PATIENCE, PAUSE = 300.0, 10.0  # seconds for which, and after which, a job that must be put back asks again
MARGIN = 60.0  # seconds before the walltime that are left to end in
AWAY = ("contact slurm controller", "timed out", "connection refused", "connect failure", "zero bytes")


class _Away(Exception):  # noqa: N818  (it may come back)
    """The controller did not answer."""


@dataclass(frozen=True)
class Queued:
    """A job that waits or runs."""

    id: str
    state: str
    comment: str  # the rule and its wildcards, from Snakemake's executor
    node: str


def comment(rule: str, *wildcards: object) -> str:
    """How the executor calls a job."""
    return f"rule_{rule}_wildcards_" + "_".join(map(str, wildcards)).replace("/", "_")


def _told(*command: str) -> str | None:
    """What a command of SLURM prints; None if it cannot be asked."""
    with suppress(_Away):
        return _answer(*command)
    return None


def _answer(*command: str) -> str | None:
    """What a command of SLURM prints; None if it is not here, or refuses."""
    if not shutil.which(command[0]):
        return None
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise _Away from None
    except OSError:
        return None
    if asked.returncode and any(sign in asked.stderr.lower() for sign in AWAY):
        raise _Away
    return None if asked.returncode else asked.stdout.strip()


def queued() -> list[Queued]:
    """This user's jobs that were submitted from this folder."""
    told = _told("squeue", f"--user={getpass.getuser()}", "--noheader", "--format=%i\t%T\t%k\t%N\t%Z")
    rows = [line.split("\t") for line in (told or "").splitlines()]
    return [Queued(*row[:4]) for row in rows if len(row) == 5 and Path(row[4]) == Path.cwd()]


def keep_polling() -> None:
    """Let a controller that is away be away.

    Before every poll the executor asks it for how long jobs stay in its queue, and takes silence for "not at all": it
    then asks sacct instead, for ever where there is no accounting. The answer does not change, so it is remembered.
    """
    executor: Any = sys.modules.get("snakemake_executor_plugin_slurm")
    if executor is not None:
        ask = executor.get_min_job_age
        known: list[int] = []

        def remembered() -> int | None:
            if not known and (answer := ask()) is not None:
                known.append(answer)
            return known[0] if known else None

        executor.get_min_job_age = remembered


def requeue() -> bool:
    """Put the job of this process back into the queue, where it waits for its next slice under the same number.

    False if this is no job of a batch, may not be put back, or was cancelled; a controller that is away is asked
    again for a while.
    """
    job, tried = os.environ.get("SLURM_JOB_ID"), False
    walltime = float(os.environ.get("SLURM_JOB_END_TIME", "inf"))
    until = min(time.time() + PATIENCE, walltime - MARGIN - TIMEOUT)
    while job:
        try:
            if _answer("squeue", f"--job={job}", "--noheader", "--format=%T") != "RUNNING":
                return tried  # perhaps it was put back and the answer got lost
            tried = True
            return _answer("scontrol", "requeue", job) is not None
        except _Away:
            if time.time() > until:
                return False
            time.sleep(PAUSE)
    return False


def refuse_impossible(name: str, needed: Resources, model: str) -> None:
    """Refuse what no node of the cluster has: SLURM would tell it less clearly, or let it wait for ever."""
    found = [(_gpus(gres, model), int(cpus.rstrip("+")), int(memory.rstrip("+"))) for gres, cpus, memory in _nodes()]
    asked = (needed.gpus, needed.cpus, needed.mem_gb * 1000)
    if found and not any(all(map(int.__ge__, each, asked)) for each in found):
        most = max(found)
        raise UserError(
            f"{name} asks for one node with {asked[0]} {model} GPUs, {asked[1]} cores and {needed.mem_gb} GB, and no "
            f"node has that (the largest: {most[0]} GPUs, {most[1]} cores, {most[2] // 1000} GB); lower its resources "
            "in params/recipes.yaml, or name the cluster's gpu_model at the top of slurm/config.yaml."
        )


@cache
def _nodes() -> list[list[str]]:
    """GPUs, cores and megabytes of every kind of node."""
    told = _told("sinfo", "--noheader", "--format=%G\t%c\t%m")
    return [line.split("\t") for line in (told or "").splitlines()]


def _gpus(gres: str, model: str) -> int:
    """How many GPUs of a model a node has, from "gpu:h100:8(S:0-1),shard:16"."""
    found = re.findall(r"gpu:(?:([^:,()]+):)?(\d+)", gres)
    return sum(int(count) for kind, count in found if not model or kind.lower() in ("", model.lower()))
