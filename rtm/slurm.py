"""What SLURM's queue holds of this repository's jobs; nothing where there is no SLURM."""

import getpass
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 20  # seconds: a controller that is away must not hold up whoever only looks


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


def queued() -> list[Queued]:
    """This user's jobs that were submitted from this folder."""
    if not shutil.which("squeue"):
        return []
    command = ["squeue", f"--user={getpass.getuser()}", "--noheader", "--format=%i\t%T\t%k\t%N\t%Z"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split("\t") for line in told.splitlines()]
    return [Queued(*row[:4]) for row in rows if len(row) == 5 and Path(row[4]) == Path.cwd()]
