"""A training inside a job of SLURM: its nodes, and its way back into the queue."""

import os
import shutil
import subprocess
import time
import uuid
from typing import Any

TIMEOUT = 20  # seconds: a command that only reads must not wait long for the controller
PATIENCE = 300.0  # seconds in which a job repeats its requeue request ...
PAUSE = 10.0  # ... and between two requests
MARGIN = 60.0  # seconds that a job needs to end before its walltime
AWAY = ("contact slurm controller", "timed out", "connection refused", "connect failure", "zero bytes")


class NoAnswer(Exception):  # noqa: N818  (not an error: the controller may answer later)
    """The controller did not answer."""


def answer(*command: str) -> str | None:
    """The output of a SLURM command; None if it is not installed or fails."""
    if not shutil.which(command[0]):
        return None
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise NoAnswer from None
    except OSError:
        return None
    if asked.returncode and any(sign in asked.stderr.lower() for sign in AWAY):
        raise NoAnswer
    return None if asked.returncode else asked.stdout.strip()


def node_count() -> int:
    """The number of nodes on which `srun` started this command, once on each node; 1 without `srun`."""
    return int(os.environ.get("SLURM_STEP_NUM_NODES", 1))


def is_first_node() -> bool:
    return os.environ.get("SLURM_NODEID", "0") == "0"


def meeting_place() -> dict[str, Any]:
    """The address where the processes of a training meet: this machine, or the job's first node."""
    nodes = node_count()
    if nodes == 1:  # a node's full name may not resolve on the node
        here = {"rdzv_endpoint": "localhost:0", "local_addr": "127.0.0.1", "run_id": uuid.uuid4().hex}
        return {"min_nodes": 1, "max_nodes": 1, **here}
    job = os.environ["SLURM_JOB_ID"]
    first = os.environ["SLURM_LAUNCH_NODE_IPADDR"]
    return {
        "min_nodes": nodes,
        "max_nodes": nodes,
        "rdzv_endpoint": f"{first}:{20000 + int(job) % 10000}",
        "rdzv_configs": {"is_host": is_first_node()},
        "local_addr": os.environ.get("SLURMD_NODENAME"),
        "run_id": job,
    }


def requeue() -> bool:
    """Put the job of this process back into the queue. It keeps its number and waits for its next slice.

    Return False if this is no batch job, if it was cancelled, or if SLURM refuses. While the controller does not
    answer, the request is repeated. If there are several nodes, only the first one sends the request.
    """
    if not is_first_node():
        return True
    job = os.environ.get("SLURM_JOB_ID")
    walltime = float(os.environ.get("SLURM_JOB_END_TIME", "inf"))
    until = min(time.time() + PATIENCE, walltime - MARGIN - TIMEOUT)
    was_asked = False
    while job:
        try:
            if answer("squeue", f"--job={job}", "--noheader", "--format=%T") != "RUNNING":
                return was_asked  # an earlier request may have worked although its answer was lost
            was_asked = True
            return answer("scontrol", "requeue", job) is not None
        except NoAnswer:
            if time.time() > until:
                return False
            time.sleep(PAUSE)
    return False
