"""Functions for the Snakefile: the inputs and resources of each rule, and the allowed values of wildcards.

Receipts decide which jobs run. Snakemake decides by time stamps, so they are arranged for it (rtm/pipeline/marks.py).
"""

import atexit
import re
import sys
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

from rtm.core.errors import UserError
from rtm.core.files import unprotect
from rtm.lineage.freshness import Freshness, State
from rtm.lineage.recording import is_lost, refuse_lost
from rtm.pipeline.forecast import forecast
from rtm.pipeline.guard import Guard
from rtm.pipeline.marks import Mark
from rtm.pipeline.requests import Requests
from rtm.pipeline.site import Site, refuse_impossible
from rtm.pipeline.slurm import Queued, comment, improve_executor, waiting_jobs
from rtm.pipeline.taking import Taking
from rtm.stages import stages
from rtm.stages.base import Job
from rtm.stages.graph import every_job
from rtm.stages.train import Train
from rtm.training.devices import check_devices

Wildcards = Any
Files = list[str]
Flag = Callable[[str], str]  # Snakemake's `ancient`
Value = Callable[..., int | str]  # of a rule: a function of its wildcards


class Plan:
    def __init__(self, workflow: Any, ancient: Flag, site: Mapping[str, Any]) -> None:
        self.graph = every_job()
        self.jobs: dict[tuple[str, ...], Job] = {}
        for job in self.graph.values():
            self.jobs[job.stage.name, job.root, *job.names.values()] = job
        self.freshness = Freshness()
        self.taking = Taking(self.freshness, self._starts_jobs)
        self.guard = Guard(self.graph, self.freshness, site)
        self.requests = Requests(site)
        self.mark = Mark()
        self.workflow = workflow
        self.ancient = ancient
        self.site = site  # a profile's `config`
        self.trainings: dict[str, Job] = {}  # trainings that must run
        self.cluster: Site | None = None
        walltime = site.get("walltime")
        self.exhausted = improve_executor(int(walltime) if walltime else None)
        atexit.register(self.freshness.hashes.save)
        if not workflow.is_main_process:  # this is inside a group job, which does not see the profile's limit
            workflow.global_resources["measuring"] = 1

    def job(self, rule: str, wildcards: Wildcards) -> Job:
        values = [str(getattr(wildcards, part)) for part in stages()[rule].parts]
        return self.jobs[rule, wildcards.root, *values]

    def inputs(self, rule: str, **patterns: str) -> Callable[[Wildcards], Files]:
        """An input function: the files of the jobs before it; `patterns` show where they are, by stage."""

        @_exit_on_error
        def files(wildcards: Wildcards) -> Files:
            self._check_triggers()
            without_timers(self.workflow.scheduling_settings)
            return self._inputs(self.job(rule, wildcards), patterns)

        return files

    def _inputs(self, job: Job, patterns: Mapping[str, str]) -> Files:
        if self.workflow.is_main_process:
            self.taking.take(job)
        inputs = self._files(job, patterns)
        present = [path for path in inputs if Path(path).exists()]
        state = self.freshness.state(job)
        if state is State.FRESH:
            return self._old(present)
        is_training = job.stage.name == "train"
        is_here = any(path.exists() for path in job.outputs.values())
        if state is State.ABSENT and not is_here:
            self._refuse_lost(job)
        lost = is_lost(self.freshness, job)
        if is_training and not lost:
            self._count_training(job)
        if state is State.ABSENT and (is_training or not is_here):
            # otherwise, images made for another job would start a finished training again
            return self._old(present if lost else inputs)
        self._refuse_lost(job)
        self._refuse_impossible(job)
        self.guard.refuse_costly(job)
        for path in job.outputs.values():
            unprotect(path)
        files = [*job.outputs.values(), *(path for _, path in job.reads())]
        return [*inputs, self.mark.newer_than(files)]

    def threads(self, rule: str) -> Callable[[Wildcards], int]:
        return lambda wildcards: self.job(rule, wildcards).cost.cpus

    def all_threads(self, rule: str) -> Callable[[Wildcards], int]:
        """All cores for a timed job, so that nothing runs beside it; only its own cores with a GPU or on a cluster."""

        def threads(wildcards: Wildcards) -> int:
            cost = self.job(rule, wildcards).cost
            cores = self.workflow.resource_settings.cores if self.workflow.is_main_process else None
            return cost.cpus if cost.gpus else cores or cost.cpus

        return threads

    def group(self, rule: str) -> Callable[[Wildcards], str]:
        """The group of a checkpoint: all its measurements are one job of SLURM. Latency belongs to the first seed."""

        def name(wildcards: Wildcards) -> str:
            training = self.job(rule, wildcards).input(Train)
            return f"measure_{wildcards.root}{wildcards.experiment}_seed{training.seed}"

        return name

    def resources(self, rule: str) -> dict[str, Value]:
        job = partial(self.job, rule)
        return self._needed(job) | {
            "runtime": lambda wildcards: self.requests.minutes(job(wildcards)),
            "slurm_extra": lambda wildcards: self.requests.options(job(wildcards), self._queued()),
        }

    def fewer(self, rule: str) -> Callable[[Wildcards], str]:
        return lambda wildcards: self.requests.limit(self.job(rule, wildcards))

    def doctor_resources(self) -> dict[str, Value]:
        """The resources of `rtm doctor --gpu EXPERIMENT`: those of the training, for a few minutes."""
        return self._needed(self._training) | {"runtime": lambda _: 15}

    def doctor_threads(self, wildcards: Wildcards) -> int:
        return self._training(wildcards).cost.cpus

    def doctor_targets(self) -> list[str]:
        """The targets of `snakemake doctor`: the experiment in `--config experiment=`, by default the costliest."""
        costliest = max(self._paper_trainings(), key=lambda job: job.cost.gpus * job.cost.hours)
        return [f"logs/doctor/{self.site.get('experiment', costliest.names['experiment'])}.txt"]

    def reports(self, scale: str) -> list[str]:
        """The tables and figures of a scale."""
        own = [job for job in self.graph.values() if job.config.scale_name == scale]
        return [str(job.first) for job in own if job.stage.name in ("table", "figure")]

    def wildcards(self) -> dict[str, str]:
        """The allowed values of each wildcard, as patterns."""
        values: dict[str, set[str]] = defaultdict(set)
        for job in self.graph.values():
            values["root"].add(job.root)
            for part, value in job.names.items():
                values[part].add(value)
        patterns = {part: one_of(names) for part, names in values.items()}
        return patterns | {"seed": "[0-9]+"}

    def announce(self) -> None:
        """Print how long the trainings will take, side by side on this machine's cores or one after the other."""
        waiting = list(self.trainings.values())
        if not waiting or not self.workflow.is_main_process:
            return
        cores = self.workflow.resource_settings.cores or 1
        costs = [job.cost for job in waiting]
        at_a_time = 1
        if not self._runs("slurm") and not any(cost.gpus for cost in costs):
            at_a_time = cores // max(cost.cpus for cost in costs)
        expected = forecast(waiting, self.graph.values(), self.freshness, at_a_time)
        print(f"rtm: {expected}", file=sys.stderr)

    def _files(self, job: Job, patterns: Mapping[str, str]) -> Files:
        """The files that a job reads. Each must be where the rule says."""
        files: Files = []
        for before, path in job.reads():
            if not _matcher(patterns[before.stage.name]).fullmatch(str(path)):
                raise UserError(f"Rule {job.stage.name} does not show that {job.id} reads {path}.")
            if str(path) not in self.taking.coming:
                files.append(str(path))
        return files

    def _old(self, files: Files) -> Files:
        """The same files; Snakemake does not look at their times."""
        return [self.ancient(path) for path in files]

    def _needed(self, job: Callable[[Wildcards], Job]) -> dict[str, Value]:
        requests = self.requests

        def memory(wildcards: Wildcards) -> int:
            asking = job(wildcards)
            return requests.memory(asking, self.exhausted[comment(asking)])

        return {
            "gpu": lambda wildcards: requests.of(job(wildcards)).gpus,
            "gpu_model": lambda wildcards: requests.model(job(wildcards)),
            "mem_mb": memory,
        }

    def _training(self, wildcards: Wildcards) -> Job:
        return next(job for job in self._paper_trainings() if job.names["experiment"] == wildcards.experiment)

    def _paper_trainings(self) -> list[Job]:
        return [job for job in self.graph.values() if job.stage.name == "train" and not job.root]

    def _runs(self, executor: str) -> bool:
        """Whether this process starts jobs, and with this executor."""
        plugin = self.workflow.executor_plugin if self.workflow.is_main_process else None
        return plugin is not None and plugin.name == executor

    def _starts_jobs(self) -> bool:
        """Whether jobs really start: this is no dry run, and no --touch."""
        plugin = self.workflow.executor_plugin
        if plugin is None:
            return False
        settings = plugin.common_settings
        return not (settings.dryrun_exec or settings.touch_exec)

    def _queued(self) -> list[Queued]:
        return waiting_jobs() if self._runs("slurm") else []

    def _count_training(self, job: Job) -> None:
        """Remember a training. At the end of a dry run, print how long all will take; in a real run `onstart` does."""
        if not self.trainings and self.workflow.is_main_process and not self._starts_jobs():
            atexit.register(self.announce)
        self.trainings[job.id] = job

    def _check_triggers(self) -> None:
        """Raise an error if Snakemake would use its own records, because a clone does not have them."""
        if {str(trigger).lower() for trigger in self.workflow.rerun_triggers} != {"mtime"}:
            raise UserError("Receipts decide what is stale; use `--rerun-triggers mtime`, as profiles/default does.")

    def _refuse_lost(self, job: Job) -> None:
        """Raise an error before anything starts if the weights of a finished training must be pulled first."""
        refuse_lost(self.freshness, job)
        for before, path in job.reads():
            if not path.exists() or self.freshness.state(before) is State.CHANGED:
                refuse_lost(self.freshness, before)

    def _refuse_impossible(self, job: Job) -> None:
        """Before anything is fetched, raise an error for a job that fits no node or a training without its GPUs."""
        needed = self.requests.of(job)
        if self._runs("slurm") and not job.stage.local:
            if self.cluster is None:
                self.cluster = Site.of(self.workflow.resource_settings.default_resources)
                self.cluster.check()
            self.cluster.refuse_long(job.id, self.requests.minutes(job))
            refuse_impossible(job.id, needed, self.requests.model(job))
        elif self._runs("local") and job.stage.name == "train":
            check_devices(job.id, needed, job.first)


@contextmanager
def one_sentence() -> Iterator[None]:
    """For a user's mistake, print only its message and exit: Snakemake would add a stack trace."""
    try:
        yield
    except UserError as error:
        print(f"rtm: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def without_timers(scheduling: Any) -> None:
    """Lift Snakemake's default limit of 100 jobs a second; a user's own limit stays.

    With a limit, each finished job leaves a timer behind, and each timer makes Snakemake check all jobs every second.
    After some hundred jobs, this uses a whole core. No option of Snakemake switches it off.
    """
    limit = getattr(scheduling, "max_jobs_per_timespan", None)
    if limit is not None and (limit.max_jobs, limit.timespan) == (100, 1):
        scheduling.max_jobs_per_timespan = None


def one_of(names: Iterable[str]) -> str:
    """A pattern that matches these names; without names it matches nothing."""
    return "|".join(sorted(set(names), reverse=True)) or "(?!)"


def _exit_on_error(function: Callable[[Wildcards], Files]) -> Callable[[Wildcards], Files]:
    """End Snakemake if an input function fails: otherwise it would treat an existing output as a source file."""

    def checked(wildcards: Wildcards) -> Files:
        try:
            with one_sentence():
                return function(wildcards)
        except Exception:
            traceback.print_exc()
        raise SystemExit(1)

    return checked


@cache
def _matcher(pattern: str) -> re.Pattern[str]:
    """A pattern of Snakemake as a regular expression."""
    return re.compile(re.sub(r"\\{\w+\\}", ".*", re.escape(pattern)))
