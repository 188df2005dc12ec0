"""The jobs of this repository in SLURM's queue. Without SLURM there are none."""

import getpass
import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rtm.config.experiments import Resources
from rtm.core.errors import UserError

TIMEOUT = 20  # seconds: a command that only reads must not wait long for the controller
PATIENCE, PAUSE = 300.0, 10.0  # seconds in which a job repeats its requeue request, and between two requests
MARGIN = 60.0  # seconds before the walltime that a job needs to end
AWAY = ("contact slurm controller", "timed out", "connection refused", "connect failure", "zero bytes")


class _Away(Exception):  # noqa: N818  (not an error: it may come back)
    """The controller did not answer."""


@dataclass(frozen=True)
class Queued:
    """A waiting or running job."""

    id: str
    state: str
    comment: str  # the rule and its wildcards, from Snakemake's executor
    node: str


def comment(rule: str, *wildcards: object) -> str:
    """The comment that Snakemake's executor gives to a job."""
    return f"rule_{rule}_wildcards_" + "_".join(map(str, wildcards)).replace("/", "_")


def _output(*command: str) -> str | None:
    """The output of a SLURM command; None if it failed or the controller did not answer."""
    with suppress(_Away):
        return _answer(*command)
    return None


def _answer(*command: str) -> str | None:
    """The output of a SLURM command; None if it is not installed or fails."""
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
    """The jobs that this user submitted from this folder."""
    output = _output("squeue", f"--user={getpass.getuser()}", "--noheader", "--format=%i\t%T\t%k\t%N\t%Z")
    rows = [line.split("\t") for line in (output or "").splitlines()]
    return [Queued(*row[:4]) for row in rows if len(row) == 5 and Path(row[4]) == Path.cwd()]


def keep_polling() -> None:
    """Keep polling while the controller does not answer.

    Before every poll the executor asks the controller how long jobs stay in the queue. It takes no answer for "not at
    all" and then asks sacct, for ever if there is no accounting. The answer never changes, so we remember it.
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


def node_count() -> int:
    """On how many nodes `srun` started this command, once on each; one without it."""
    return int(os.environ.get("SLURM_STEP_NUM_NODES", 1))


def meeting_place() -> dict[str, Any]:
    """Where the processes of a training find each other: on this machine, or on the first of its nodes."""
    if (nodes := node_count()) == 1:  # a node's full name may not resolve on the node
        here = {"rdzv_endpoint": "localhost:0", "local_addr": "127.0.0.1", "run_id": uuid.uuid4().hex}
        return {"min_nodes": 1, "max_nodes": 1, **here}
    job, first = os.environ["SLURM_JOB_ID"], os.environ["SLURM_LAUNCH_NODE_IPADDR"]
    return {
        "min_nodes": nodes,
        "max_nodes": nodes,
        "rdzv_endpoint": f"{first}:{20000 + int(job) % 10000}",
        "rdzv_configs": {"is_host": _is_first_node()},
        "local_addr": os.environ.get("SLURMD_NODENAME"),
        "run_id": job,
    }


def _is_first_node() -> bool:
    return os.environ.get("SLURM_NODEID", "0") == "0"


def requeue() -> bool:
    """Put the job of this process back into the queue, where it waits for its next slice under the same number.

    False if this is no batch job, if it was cancelled, or if SLURM refuses. While the controller does not answer, the
    request is repeated. Of several nodes the first one asks for all.
    """
    if not _is_first_node():
        return True
    job, tried = os.environ.get("SLURM_JOB_ID"), False
    walltime = float(os.environ.get("SLURM_JOB_END_TIME", "inf"))
    until = min(time.time() + PATIENCE, walltime - MARGIN - TIMEOUT)
    while job:
        try:
            if _answer("squeue", f"--job={job}", "--noheader", "--format=%T") != "RUNNING":
                return tried  # perhaps it was requeued and the answer got lost
            tried = True
            return _answer("scontrol", "requeue", job) is not None
        except _Away:
            if time.time() > until:
                return False
            time.sleep(PAUSE)
    return False


def refuse_impossible(name: str, needed: Resources, model: str) -> None:
    """Refuse a job that fits no node of the cluster: SLURM would let it wait for ever, or explain less."""
    found = [(_gpus(gres, model), int(cpus.rstrip("+")), int(memory.rstrip("+"))) for gres, cpus, memory in _nodes()]
    asked = (needed.gpus, needed.cpus, needed.mem_gb * 1000)
    if found and not any(all(map(int.__ge__, each, asked)) for each in found):
        most = max(found)
        raise UserError(
            f"{name} asks for one node with {asked[0]} {model} GPUs, {asked[1]} cores and {needed.mem_gb} GB, and no "
            f"node has that (the largest: {most[0]} GPUs, {most[1]} cores, {most[2] // 1000} GB); lower its resources "
            "in params/recipes.yaml, or set the cluster's gpu_model at the top of slurm/config.yaml."
        )


@cache
def _nodes() -> list[list[str]]:
    """GPUs, cores and memory (MB) of every kind of node."""
    output = _output("sinfo", "--noheader", "--format=%G\t%c\t%m")
    return [line.split("\t") for line in (output or "").splitlines()]


def _gpus(gres: str, model: str) -> int:
    """The number of GPUs of a model in a node's gres, for example "gpu:h100:8(S:0-1),shard:16"."""
    found = re.findall(r"gpu:(?:([^:,()]+):)?(\d+)", gres)
    return sum(int(count) for kind, count in found if not model or kind.lower() in ("", model.lower()))
