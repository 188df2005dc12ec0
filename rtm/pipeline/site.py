"""What a cluster has and allows: nodes, partitions, accounts. A job that could only wait for ever is refused.

`sbatch --test-only` knows whether an account may use a partition. It is not asked about nodes, because it also refuses
what only has to wait for a node under repair.
"""

import getpass
import math
import re
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from rtm.config.experiments import Resources
from rtm.core.errors import UserError, printable
from rtm.training.cluster import TIMEOUT, NoAnswer, answer

FILE = "slurm/config.yaml"
REFUSED = re.compile(r"invalid (account|partition|qos)|not permitted|access", re.IGNORECASE)


@dataclass(frozen=True, order=True)
class Node:
    """A kind of node."""

    gpus: int  # of the wanted model
    cpus: int
    memory: int  # MB

    def fits(self, needed: Resources) -> bool:
        return self.gpus >= needed.gpus and self.cpus >= needed.cpus and self.memory >= needed.mem_gb * 1000


@dataclass(frozen=True)
class Site:
    """The partition and the account from the profile."""

    partition: str | None
    account: str | None

    @classmethod
    def of(cls, resources: Any) -> "Site":
        """The site of Snakemake's default resources."""
        return cls(_text(resources, "slurm_partition"), _text(resources, "slurm_account"))

    def check(self) -> None:
        """Raise an error if the cluster does not answer, or does not know the partition or the account."""
        known = [name.rstrip("*") for name, _ in _partitions()]
        if not known:
            raise UserError(
                "SLURM does not answer (`sinfo` lists no partition); try again, or leave out `--profile slurm`."
            )
        for name in self.partition.split(",") if self.partition else ():
            if name not in known:
                names = ", ".join(dict.fromkeys(known))
                raise UserError(
                    f"SLURM has no partition {name}; set slurm_partition at the top of {FILE} to one of {names}."
                )
        accounts = _accounts()
        if self.account and accounts and self.account.lower() not in accounts:
            names = ", ".join(accounts)
            raise UserError(
                f"SLURM has no account {self.account} for you; set slurm_account at the top of {FILE} to one of "
                f"{names}."
            )
        if refused := self._refused():
            raise UserError(
                f"SLURM refuses slurm_partition {self.partition or '(default)'} with slurm_account "
                f"{self.account or '(default)'}: {refused}; correct them at the top of {FILE}."
            )

    def refuse_long(self, name: str, asked: int) -> None:
        """Raise an error for a job that asks for more minutes than any partition allows."""
        chosen = [(partition, minutes(limit)) for partition, limit in _partitions() if self._is_chosen(partition)]
        longest = max((limit for _, limit in chosen), default=math.inf)
        if asked > longest:
            names = ", ".join(partition.rstrip("*") for partition, _ in chosen)
            raise UserError(
                f"{name} asks for {asked} minutes, and partition {names} allows {longest:g}; set "
                f"walltime={longest:g} at the top of {FILE}: a longer training continues in its next slice."
            )

    def _is_chosen(self, partition: str) -> bool:
        if self.partition is None:
            return partition.endswith("*")
        return partition.rstrip("*") in self.partition.split(",")

    def _refused(self) -> str:
        """SLURM's message about this partition with this account."""
        options = [f"--partition={self.partition}"] if self.partition else []
        options += [f"--account={self.account}"] if self.account else []
        if not options:
            return ""
        command = ["sbatch", "--test-only", "--time=1", *options, "--wrap=true"]
        with suppress(OSError, subprocess.TimeoutExpired):
            asked = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
            message = " ".join(asked.stderr.split())
            if asked.returncode and REFUSED.search(message):
                return printable(message)
        return ""


def refuse_impossible(name: str, needed: Resources, model: str) -> None:
    """Raise an error for a job that fits no node of the cluster."""
    kinds = nodes(model)
    if kinds and not any(node.fits(needed) for node in kinds):
        most = max(kinds)
        raise UserError(
            f"{name} asks for one node with {needed.gpus} {model} GPUs, {needed.cpus} cores and {needed.mem_gb} GB, "
            f"and no node has that (the largest: {most.gpus} GPUs, {most.cpus} cores, {most.memory // 1000} GB); lower "
            f"its resources in params/recipes.yaml, or set the cluster's gpu_model at the top of {FILE}."
        )


def largest_memory(needed: Resources, model: str) -> int:
    """MB of the largest node that has the GPUs; if this is unknown, the memory in `needed`."""
    fits = [node.memory for node in nodes(model) if node.gpus >= needed.gpus]
    return max(fits, default=needed.mem_gb * 1000)


@cache
def nodes(model: str) -> list[Node]:
    """Every kind of node, with its GPUs of this model."""
    kinds = []
    for line in _lines("sinfo", "--noheader", "--format=%G\t%c\t%m"):
        gres, cpus, memory = line.replace("+", "").split("\t")
        kinds.append(Node(gpus(gres, model), int(cpus), int(memory)))
    return kinds


def gpus(gres: str, model: str) -> int:
    """The number of GPUs of a model in a node's gres, for example "gpu:h100:8(S:0-1),shard:16"."""
    rows = re.findall(r"gpu:(?:([^:,()]+):)?(\d+)", gres)
    kinds = ("", model.lower())
    return sum(int(count) for kind, count in rows if not model or kind.lower() in kinds)


def minutes(limit: str) -> float:
    """Minutes from SLURM's [days-]hours:minutes:seconds; "infinite" means no limit."""
    if not re.fullmatch(r"[\d:-]+", limit):
        return math.inf
    days, _, clock = limit.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if not days and len(parts) < 3:  # minutes, or minutes:seconds
        parts.insert(0, 0)
    hours, whole, seconds = [*parts, 0, 0][:3]
    return 1440 * int(days or 0) + 60 * hours + whole + seconds / 60


def _accounts() -> list[str]:
    """The accounts of this user; an empty list if the cluster keeps no accounts."""
    user = f"user={getpass.getuser()}"
    lines = _lines("sacctmgr", "--noheader", "--parsable2", "list", "assoc", user, "format=account")
    return list(dict.fromkeys(line.strip().lower() for line in lines if line.strip()))


@cache
def _partitions() -> list[tuple[str, str]]:
    """The name and the time limit of every partition; the default partition has a star after its name."""
    rows = [line.partition("\t") for line in _lines("sinfo", "--noheader", "--format=%P\t%l")]
    return [(name, limit) for name, _, limit in rows]


def _lines(*command: str) -> list[str]:
    """The output of a SLURM command; nothing if it failed or the controller did not answer."""
    with suppress(NoAnswer):
        return (answer(*command) or "").splitlines()
    return []


def _text(resources: Any, name: str) -> str | None:
    """A default resource of the profile, if it is set."""
    resource = resources.get(name) if resources is not None else None
    value = getattr(resource, "raw", resource)
    return None if value is None else str(value).strip("'\"")
