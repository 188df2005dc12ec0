"""The jobs of this repository in SLURM's queue. Without SLURM there are none."""

import getpass
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rtm.config.experiments import Resources
from rtm.core.errors import UserError, printable

TIMEOUT = 20  # seconds: a command that only reads must not wait long for the controller
PATIENCE, PAUSE = 300.0, 10.0  # seconds in which a job repeats its requeue request, and between two requests
MARGIN = 60.0  # seconds that a job needs to end before its walltime
# messages of a node about a job that used too much memory; the job's state is often only FAILED
MEMORY = re.compile(r"^(slurmstepd|srun)\S* error: .*(memory limit|oom[-_]kill|out of memory)", re.I | re.M)
END = 1 << 16  # number of bytes to read from the end of a log
AWAY = ("contact slurm controller", "timed out", "connection refused", "connect failure", "zero bytes")


class NoAnswer(Exception):  # noqa: N818  (not an error: the controller may answer later)
    """The controller did not answer."""


@dataclass(frozen=True)
class Queued:
    """A waiting or running job."""

    id: str
    state: str
    comment: str  # the rule and its wildcards, from Snakemake's executor
    name: str
    submitted: str  # time of submission
    reason: str  # the reason why it waits; "None" if it runs


def comment(rule: str, *wildcards: object) -> str:
    """The comment that Snakemake's executor gives to a job."""
    return f"rule_{rule}_wildcards_" + "_".join(map(str, wildcards)).replace("/", "_")


def _output(*command: str) -> str | None:
    """The output of a SLURM command; None if it failed or the controller did not answer."""
    with suppress(NoAnswer):
        return _answer(*command)
    return None


def _answer(*command: str) -> str | None:
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


def waiting_jobs() -> list[Queued]:
    """The same as `queued`, but an empty list if the controller does not answer."""
    with suppress(NoAnswer):
        return queued()
    return []


def queued() -> list[Queued]:
    """The jobs that this user submitted from this folder."""
    shown = "%i\t%T\t%k\t%j\t%V\t%r\t%Z"
    output = _answer("squeue", f"--user={getpass.getuser()}", "--noheader", f"--format={shown}")
    rows = [line.split("\t") for line in (output or "").splitlines()]
    return [Queued(*row[:6]) for row in rows if len(row) == 7 and Path(row[6]) == Path.cwd()]


class Executor:
    """Improve Snakemake's executor for SLURM; `exhausted` counts how often jobs ran out of memory.

    - Submissions are repeated while the controller does not answer (`rtm.pipeline.submit`).
    - Names of jobs contain stage and experiment. The original gives all jobs one name and queries the queue by this
      name; here it queries by user.
    - The report of a failed job has SLURM's information about it.
    - The original asks before every poll how long jobs stay in the queue. It reads a missing answer as "not at all" and
      asks sacct instead, which fails for ever without accounting. The answer never changes, so it is remembered here.
    """

    def __init__(self, walltime: int | None) -> None:
        self.exhausted: Counter[str] = Counter()
        self.walltime = walltime
        plugin: Any = sys.modules.get("snakemake_executor_plugin_slurm")
        if plugin is not None:
            plugin.get_min_job_age = _remembered(plugin.get_min_job_age)
            plugin.get_submit_command = self._submitting(plugin.get_submit_command)
            for query in ("query_job_status_squeue", "query_job_status_sacct"):
                setattr(plugin, query, _by_user(getattr(plugin, query)))
            plugin.Executor.report_job_error = self._explaining(plugin.Executor.report_job_error)

    def _submitting(self, command: Callable[..., str]) -> Callable[..., str]:
        def submit(job: Any, params: dict[str, Any], settings: Any = None, **more: Any) -> str:
            prefix = getattr(settings, "jobname_prefix", None)
            name = job_name(prefix, job)
            call = command(job, {**params, "run_uuid": name}, settings=settings, **more)
            if job.is_group():  # limit the sum of its jobs' times; wait for a job that an earlier Snakemake left
                call = re.sub(r" -t (\d+)", lambda found: f" -t {self._at_most(int(found[1]))}", call)
                alive = [each.id for each in waiting_jobs() if each.comment == params["comment_str"]]
                call += f" --dependency=afterany:{':'.join(alive)}" if alive else ""
            here = f"/proc/{os.getpid()}/fd/2"
            return call.replace("sbatch ", f"{shlex.quote(sys.executable)} -m rtm.pipeline.submit {here} ", 1)

        return submit

    def _at_most(self, minutes: int) -> int:
        return min(minutes, self.walltime or minutes)

    def _explaining(self, report: Callable[..., None]) -> Callable[..., None]:
        def explain(executor: Any, info: Any, msg: str | None = None, **more: Any) -> None:
            message = str(msg or "").replace("Detailed failure reason unavailable (status command is not 'sacct').", "")
            if info.external_jobid:
                message += explanation(info.external_jobid)
            if "OUT_OF_MEMORY" in message or any(map(_ran_out_of_memory, more.get("aux_logs") or ())):
                for each in info.job.jobs if info.job.is_group() else [info.job]:
                    self.exhausted[comment(each.rule.name, *each.wildcards)] += 1
                asked = info.job.resources.get("mem_mb")
                message += f" It ran out of its {asked} MB; the next attempt asks for twice that, or for all of a node."
            report(executor, info, msg=message, **more)

        return explain


def job_name(prefix: str | None, job: Any) -> str:
    """The name of a job in the queue: train.cifar10_imle_rtm.0, measure.smoke.obama_imle_mlp_seed0."""
    parts = [job.groupid] if job.is_group() else [job.name, *job.wildcards]
    return re.sub(r"[^A-Za-z0-9_-]+", ".", ".".join([*([prefix] if prefix else []), *map(str, parts)])).strip(".")


def explanation(number: str) -> str:
    """SLURM's information about a failed job."""
    found = dict(re.findall(r"(\w+)=(\S+)", _output("scontrol", "--oneliner", "show", "job", number) or ""))
    facts = [
        f"{name} {found[name]}" for name in ("JobState", "Reason", "ExitCode", "NodeList", "RunTime") if name in found
    ]
    return f"SLURM says: {', '.join(facts)}." if facts else ""


def _ran_out_of_memory(log: str | None) -> bool:
    with suppress(OSError):
        return bool(log and MEMORY.search(Path(log).read_bytes()[-END:].decode(errors="replace")))
    return False


def _remembered(ask: Callable[[], int | None]) -> Callable[[], int | None]:
    known: list[int] = []

    def remembered() -> int | None:
        if not known and (answer := ask()) is not None:
            known.append(answer)
        return known[0] if known else None

    return remembered


def _by_user(query: Callable[[str], str]) -> Callable[[str], str]:
    return lambda run: query(run).replace(f"--name {run}", f"--user {getpass.getuser()}")


def node_count() -> int:
    """The number of nodes on which `srun` started this command, once on each node; 1 without `srun`."""
    return int(os.environ.get("SLURM_STEP_NUM_NODES", 1))


def meeting_place() -> dict[str, Any]:
    """The address where the processes of a training meet: this machine, or the job's first node."""
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
    """Put the job of this process back into the queue. It keeps its number and waits for its next slice.

    Return False if this is no batch job, if it was cancelled, or if SLURM refuses. While the controller does not
    answer, the request is repeated. If there are several nodes, only the first one sends the request.
    """
    if not _is_first_node():
        return True
    job, tried = os.environ.get("SLURM_JOB_ID"), False
    walltime = float(os.environ.get("SLURM_JOB_END_TIME", "inf"))
    until = min(time.time() + PATIENCE, walltime - MARGIN - TIMEOUT)
    while job:
        try:
            if _answer("squeue", f"--job={job}", "--noheader", "--format=%T") != "RUNNING":
                return tried  # an earlier request may have worked although its answer was lost
            tried = True
            return _answer("scontrol", "requeue", job) is not None
        except NoAnswer:
            if time.time() > until:
                return False
            time.sleep(PAUSE)
    return False


def refuse_impossible(name: str, needed: Resources, model: str) -> None:
    """Raise an error for a job that fits no node of the cluster: SLURM would let it wait for ever, or explain less."""
    found = [(_gpus(gres, model), int(cpus.rstrip("+")), int(memory.rstrip("+"))) for gres, cpus, memory in _nodes()]
    asked = (needed.gpus, needed.cpus, needed.mem_gb * 1000)
    if found and not any(all(map(int.__ge__, each, asked)) for each in found):
        most = max(found)
        raise UserError(
            f"{name} asks for one node with {asked[0]} {model} GPUs, {asked[1]} cores and {needed.mem_gb} GB, and no "
            f"node has that (the largest: {most[0]} GPUs, {most[1]} cores, {most[2] // 1000} GB); lower its resources "
            "in params/recipes.yaml, or set the cluster's gpu_model at the top of slurm/config.yaml."
        )


def largest_memory(needed: Resources, model: str) -> int:
    """MB of the largest node that has the GPUs; if this is unknown, the memory in `needed`."""
    fits = [int(memory.rstrip("+")) for gres, _, memory in _nodes() if _gpus(gres, model) >= needed.gpus]
    return max(fits, default=needed.mem_gb * 1000)


@dataclass(frozen=True)
class Site:
    """The partition and the account from the profile."""

    partition: str | None
    account: str | None

    def limits(self) -> dict[str, float]:
        """The time limit in minutes of each partition that jobs may use."""
        every = {name.rstrip("*"): limit for name, limit in _partitions()}
        chosen = self.partition.split(",") if self.partition else _default_partitions()
        return {name: _minutes(every[name]) for name in chosen if name in every}

    def refuse_long(self, name: str, minutes: int) -> None:
        """Raise an error for a job that asks for more time than any partition allows: it would wait for ever."""
        limits = self.limits()
        if limits and minutes > (longest := max(limits.values())):
            raise UserError(
                f"{name} asks for {minutes} minutes, and partition {', '.join(limits)} allows {longest:g}; set "
                f"walltime={longest:g} at the top of slurm/config.yaml: a longer training continues in its next slice."
            )

    def check(self) -> None:
        """Raise an error if the cluster does not answer, or does not know the partition or the account."""
        known = [name.rstrip("*") for name, _ in _partitions()]
        if not known:
            raise UserError(
                "SLURM does not answer (`sinfo` lists no partition); try again, or leave out `--profile slurm`."
            )
        if wrong := [name for name in (self.partition or "").split(",") if name and name not in known]:
            raise UserError(
                f"SLURM has no partition {', '.join(wrong)}; set slurm_partition at the top of slurm/config.yaml to "
                f"one of {', '.join(dict.fromkeys(known))}."
            )
        accounts = _accounts()
        if self.account and accounts and self.account.lower() not in accounts:
            raise UserError(
                f"SLURM has no account {self.account} for you; set slurm_account at the top of slurm/config.yaml to "
                f"one of {', '.join(accounts)}."
            )
        options = [*(["-p", self.partition] if self.partition else []), *(["-A", self.account] if self.account else [])]
        if options and (refused := _refused("sbatch", "--test-only", "--time=1", *options, "--wrap=true")):
            raise UserError(
                f"SLURM refuses slurm_partition {self.partition or '(default)'} with slurm_account "
                f"{self.account or '(default)'}: {refused}; correct them at the top of slurm/config.yaml."
            )


def _accounts() -> list[str]:
    """The accounts of this user; an empty list if the cluster keeps no accounts."""
    listed = _output(
        "sacctmgr", "--noheader", "--parsable2", "list", "assoc", f"user={getpass.getuser()}", "format=account"
    )
    return list(dict.fromkeys(line.strip().lower() for line in (listed or "").splitlines() if line.strip()))


def _refused(*command: str) -> str:
    """The message of a command about a wrong account or partition."""
    with suppress(OSError, subprocess.TimeoutExpired):
        asked = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        said = " ".join(asked.stderr.split())
        if asked.returncode and re.search(r"invalid (account|partition|qos)|not permitted|access", said, re.IGNORECASE):
            return printable(said)
    return ""


def _minutes(limit: str) -> float:
    """Minutes from SLURM's [days-]hours:minutes:seconds; "infinite" means no limit."""
    if not re.fullmatch(r"[\d:-]+", limit):
        return math.inf
    days, _, clock = limit.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    if days:
        hours, minutes, *_ = [*parts, 0, 0]
        return 1440 * int(days) + 60 * hours + minutes
    hours, minutes, seconds = [0, 0, 0, *parts][-3:] if len(parts) > 1 else (0, parts[0], 0)
    return 60 * hours + minutes + seconds / 60


@cache
def _partitions() -> list[list[str]]:
    """The name and the time limit of every partition; the default partition has a star after its name."""
    output = _output("sinfo", "--noheader", "--format=%P\t%l")
    return [line.split("\t") for line in (output or "").splitlines()]


def _default_partitions() -> list[str]:
    return [name.rstrip("*") for name, _ in _partitions() if name.endswith("*")]


@cache
def _nodes() -> list[list[str]]:
    """GPUs, cores and memory (MB) of every kind of node."""
    output = _output("sinfo", "--noheader", "--format=%G\t%c\t%m")
    return [line.split("\t") for line in (output or "").splitlines()]


def _gpus(gres: str, model: str) -> int:
    """The number of GPUs of a model in a node's gres, for example "gpu:h100:8(S:0-1),shard:16"."""
    found = re.findall(r"gpu:(?:([^:,()]+):)?(\d+)", gres)
    return sum(int(count) for kind, count in found if not model or kind.lower() in ("", model.lower()))
