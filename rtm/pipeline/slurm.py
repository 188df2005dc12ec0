"""The jobs of this repository in SLURM's queue, and improvements of Snakemake's executor. Without SLURM there are none.

- Submissions are repeated while the controller does not answer (`rtm.pipeline.submit`).
- Names of jobs contain stage and experiment. The original gives all jobs one name and queries the queue by this name;
  here it queries by user.
- The report of a failed job has SLURM's information about it. Jobs that ran out of memory are counted.
- The original asks before every poll how long jobs stay in the queue. It reads a missing answer as "not at all" and
  asks sacct instead, which fails for ever without accounting. The answer never changes, so it is remembered here.
"""

import getpass
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtm.stages.base import Job
from rtm.training.cluster import NoAnswer, answer

# messages of a node about a job that used too much memory; the job's state is often only FAILED
MEMORY = re.compile(r"^(slurmstepd|srun)\S* error: .*(memory limit|oom[-_]kill|out of memory)", re.I | re.M)
END = 1 << 16  # number of bytes to read from the end of a log
TOLD = ("JobState", "Reason", "ExitCode", "NodeList", "RunTime")


@dataclass(frozen=True)
class Queued:
    """A waiting or running job."""

    id: str
    state: str
    comment: str  # the rule and its wildcards, from Snakemake's executor
    name: str
    submitted: str  # time of submission
    reason: str  # the reason why it waits; "None" if it runs


def comment(job: Job) -> str:
    """The comment that Snakemake's executor gives to a job."""
    return _comment(job.stage.name, [job.root, *job.names.values()])


def _comment(rule: str, wildcards: Iterable[object]) -> str:
    return f"rule_{rule}_wildcards_{'_'.join(map(str, wildcards))}".replace("/", "_")


def waiting_jobs() -> list[Queued]:
    """The same as `queued`, but an empty list if the controller does not answer."""
    with suppress(NoAnswer):
        return queued()
    return []


def queued() -> list[Queued]:
    """The jobs that this user submitted from this folder."""
    shown = "%i\t%T\t%k\t%j\t%V\t%r\t%Z"
    user = getpass.getuser()
    output = answer("squeue", f"--user={user}", "--noheader", f"--format={shown}")
    jobs = []
    for line in (output or "").splitlines():
        *facts, folder = line.split("\t")
        if len(facts) == 6 and Path(folder) == Path.cwd():
            jobs.append(Queued(*facts))
    return jobs


def improve_executor(walltime: int | None) -> Counter[str]:
    """Change the plugin, if this Snakemake has loaded it. `walltime` is the site's, in minutes. The counter will have
    how often each job, by its comment, has run out of memory."""
    exhausted: Counter[str] = Counter()
    plugin: Any = sys.modules.get("snakemake_executor_plugin_slurm")
    if plugin is None:
        return exhausted
    plugin.get_min_job_age = _remembered(plugin.get_min_job_age)
    plugin.get_submit_command = _submitting(plugin.get_submit_command, walltime)
    for query in ("query_job_status_squeue", "query_job_status_sacct"):
        setattr(plugin, query, _by_user(getattr(plugin, query)))
    plugin.Executor.report_job_error = _explaining(plugin.Executor.report_job_error, exhausted)
    return exhausted


def _submitting(command: Callable[..., str], walltime: int | None) -> Callable[..., str]:
    def submit(job: Any, params: dict[str, Any], settings: Any = None, **more: Any) -> str:
        name = job_name(getattr(settings, "jobname_prefix", None), job)
        call = command(job, {**params, "run_uuid": name}, settings=settings, **more)
        if job.is_group():
            call = _within(call, walltime) + _after(params["comment_str"])
        python = shlex.quote(sys.executable)
        ours = f"{python} -m rtm.pipeline.submit /proc/{os.getpid()}/fd/2 "
        return call.replace("sbatch ", ours, 1)

    return submit


def _within(call: str, walltime: int | None) -> str:
    """A submission whose time, the sum of its jobs' times, is at most the site's."""
    if asked := re.search(r" -t (\d+)", call):
        minutes = min(int(asked[1]), walltime or int(asked[1]))
        call = call.replace(asked[0], f" -t {minutes}")
    return call


def _after(text: str) -> str:
    """The option to wait for a job with this comment that an earlier Snakemake left."""
    alive = [job.id for job in waiting_jobs() if job.comment == text]
    return f" --dependency=afterany:{':'.join(alive)}" if alive else ""


def _explaining(report: Callable[..., None], exhausted: Counter[str]) -> Callable[..., None]:
    def explain(executor: Any, info: Any, msg: str | None = None, **more: Any) -> None:
        message = str(msg or "").replace("Detailed failure reason unavailable (status command is not 'sacct').", "")
        if info.external_jobid:
            message += explanation(info.external_jobid)
        logs = more.get("aux_logs") or ()
        if "OUT_OF_MEMORY" in message or any(map(_ran_out_of_memory, logs)):
            parts = info.job.jobs if info.job.is_group() else [info.job]
            exhausted.update(_comment(part.rule.name, part.wildcards) for part in parts)
            asked = info.job.resources.get("mem_mb")
            message += f" It ran out of its {asked} MB; the next attempt asks for twice that, or for all of a node."
        report(executor, info, msg=message, **more)

    return explain


def job_name(prefix: str | None, job: Any) -> str:
    """The name of a job in the queue: train.cifar10_imle_rtm.0, measure.smoke.obama_imle_mlp_seed0."""
    parts = [job.groupid] if job.is_group() else [job.name, *job.wildcards]
    words = [str(part) for part in (prefix, *parts) if part]
    return re.sub(r"[^A-Za-z0-9_-]+", ".", ".".join(words)).strip(".")


def explanation(number: str) -> str:
    """SLURM's information about a failed job."""
    output = None
    with suppress(NoAnswer):
        output = answer("scontrol", "--oneliner", "show", "job", number)
    known = dict(re.findall(r"(\w+)=(\S+)", output or ""))
    facts = [f"{name} {known[name]}" for name in TOLD if name in known]
    return f"SLURM says: {', '.join(facts)}." if facts else ""


def _ran_out_of_memory(log: str | None) -> bool:
    if log is None:
        return False
    with suppress(OSError):
        end = Path(log).read_bytes()[-END:]
        return bool(MEMORY.search(end.decode(errors="replace")))
    return False


def _remembered(ask: Callable[[], int | None]) -> Callable[[], int | None]:
    known: list[int] = []

    def remembered() -> int | None:
        age = known[0] if known else ask()
        if age is not None and not known:
            known.append(age)
        return age

    return remembered


def _by_user(query: Callable[[str], str]) -> Callable[[str], str]:
    user = getpass.getuser()
    return lambda run: query(run).replace(f"--name {run}", f"--user {user}")
