"""Functions for the Snakefile: the inputs and resources of each rule, and the allowed values of wildcards.

Snakemake decides by time stamps whether a job runs. So the inputs of a fresh job are marked `ancient`, and a stale job
gets one more input, a mark file that is newer than any output.
"""

import atexit
import math
import os
import sys
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.core.files import unprotect
from rtm.lineage.job import Job, Stage, Subject
from rtm.lineage.receipts import Ledger, State
from rtm.lineage.recording import is_lost, refuse_lost, unsigned
from rtm.lineage.store import SWITCH, Store
from rtm.pipeline.amounts import counted
from rtm.pipeline.devices import check_devices
from rtm.pipeline.forecast import forecast
from rtm.pipeline.graph import every_job
from rtm.pipeline.slurm import Executor, Queued, Site, comment, largest_memory, refuse_impossible, waiting_jobs

MARKS = Path(".snakemake/rtm")
REDO = 1.0  # if finished trainings with more GPU-hours than this would run again, the user must allow it
NAMES = [each.name for each in fields(Subject)]  # names of wildcards
LOCAL_STAGES = (Stage.FETCH, Stage.SUMMARY, Stage.TABLE, Stage.FIGURE, Stage.REPORT)  # the Snakefile's localrules
FETCHING = ("dataset", "network")  # one stage has two rules, because their outputs differ
Flag = Callable[[str], str]  # Snakemake's `ancient`
Wildcards = Any
Files = dict[str, list[str]]


class Plan:
    def __init__(self, workflow: Any, ancient: Flag, site: Mapping[str, Any]) -> None:
        self.graph, self.ledger = every_job(), Ledger()
        self.workflow, self.ancient, self.site = workflow, ancient, site  # site: a profile's `config`
        self.mark: Path | None = None
        self.store = Store(self.ledger)
        self.asked: set[str] = set()  # jobs that were looked up in the store
        self.served = 0
        self.coming: set[str] = set()  # in a dry run: files that would come from the store
        self.redone: dict[str, float] = {}  # finished trainings that would run again, and their hours
        self.trainings: dict[str, Job] = {}  # trainings that must run
        atexit.register(self.ledger.hashes.save)
        walltime = site.get("walltime")
        self.executor = Executor(int(walltime) if walltime else None)
        self.cluster: Site | None = None
        if not workflow.is_main_process:  # this is inside a group job, which does not see the profile's limit
            workflow.global_resources["measuring"] = 1

    def job(self, rule: str, wildcards: Wildcards) -> Job:
        stage = Stage.FETCH if rule in FETCHING else Stage(rule)
        subject = Subject(**{name: getattr(wildcards, name, None) for name in NAMES})
        return self.graph[f"{wildcards.root}{stage}/{subject.name}"]

    def needs(self, rule: str) -> Callable[[Wildcards], Files]:
        """An input function: the outputs of the upstream jobs, by stage."""

        @_exit_on_error
        def files(wildcards: Wildcards) -> Files:
            self._check_triggers()
            without_timers(self.workflow.scheduling_settings)
            job = self.job(rule, wildcards)
            self._ask_store(job)
            if self.ledger.state(job) is State.ABSENT and not any(path.exists() for path in job.outputs):
                self._serve(job)
            state, inputs = self.ledger.state(job), self._by_stage(job)
            if state is State.FRESH:
                return self._ancient(_present(inputs))
            is_here = any(path.exists() for path in job.outputs)
            if state is State.ABSENT and not is_here:
                self._refuse_lost(job)
            if rule == "train" and not is_lost(self.ledger, job):
                self._count_training(job)
            if state is State.ABSENT and (rule == "train" or not is_here):
                # `ancient`: otherwise, images made for another job would start a finished training again
                return self._ancient(_present(inputs) if is_lost(self.ledger, job) else inputs)
            self._refuse_lost(job)
            self._refuse_impossible(job)
            self._redo(job)
            for path in job.outputs:
                unprotect(path)
            return {**inputs, "stale": [self._fresh_mark(job)]}

        return files

    def scale(self, rule: str) -> Callable[[Wildcards], str]:
        return lambda wildcards: self.job(rule, wildcards).scale

    def threads(self, rule: str) -> Callable[[Wildcards], int]:
        return lambda wildcards: self.job(rule, wildcards).compute.cpus

    def all_threads(self, rule: str) -> Callable[[Wildcards], int]:
        """All cores for a timed job, so that nothing runs beside it; only its own cores with a GPU or on a cluster."""

        def threads(wildcards: Wildcards) -> int:
            compute = self.job(rule, wildcards).compute
            cores = self.workflow.resource_settings.cores if self.workflow.is_main_process else None
            return compute.cpus if compute.gpus else cores or compute.cpus

        return threads

    def group(self, rule: str) -> Callable[[Wildcards], str]:
        """The group of a checkpoint: all its measurements are one job of SLURM. Latency belongs to the first seed."""

        def name(wildcards: Wildcards) -> str:
            seed = next(
                before.subject.seed for before in self.job(rule, wildcards).inputs if before.stage is Stage.TRAIN
            )
            return f"measure_{wildcards.root}{wildcards.experiment}_seed{seed}"

        return name

    def compute(self, rule: str) -> dict[str, Callable[[Wildcards], int | str]]:
        """The resources of a rule, from params/ and the site's settings in a profile."""

        def of(wildcards: Wildcards) -> Resources:
            return self._given(self.job(rule, wildcards))

        def minutes(wildcards: Wildcards) -> int:
            return self._minutes(of(wildcards))

        def memory(wildcards: Wildcards) -> int:
            """The memory, doubled each time the job ran out of it, up to the largest node."""
            asked, failed = of(wildcards).mem_gb * 1000, self.executor.exhausted[comment(rule, *wildcards)]
            if not failed:
                return asked
            return min(asked << failed, largest_memory(of(wildcards), self._gpu_model(of(wildcards))))

        def options(wildcards: Wildcards) -> str:
            """Options of sbatch: a signal before the walltime; wait if an earlier copy of this job is still queued."""
            early = min(self.site.get("stop_before", 10), minutes(wildcards) / 4)
            signal = [f"--signal=URG@{int(60 * early)}", "--open-mode=append"] if rule == "train" else []
            alive = [job.id for job in self._queued() if job.comment == comment(rule, *wildcards)]
            return " ".join([*signal, *([f"--dependency=afterany:{':'.join(alive)}"] if alive else [])])

        return {
            "gpu": lambda wildcards: of(wildcards).gpus,
            "gpu_model": lambda wildcards: self._gpu_model(of(wildcards)),
            "mem_mb": memory,
            "runtime": minutes,
            "slurm_extra": options,
        }

    def fewer(self, rule: str) -> Callable[[Wildcards], str]:
        """The option of `rtm train` that limits its GPUs to `--config gpus=`."""

        def option(wildcards: Wildcards) -> str:
            job = self.job(rule, wildcards)
            given = self._given(job).gpus
            return f"--gpus {given}" if given < job.compute.gpus else ""

        return option

    def _given(self, job: Job) -> Resources:
        """The resources that a job may use. `--config gpus=` limits the GPUs of a training."""
        limit = self.site.get("gpus") if job.stage is Stage.TRAIN else None
        return job.compute.at_most(max(1, int(limit))) if limit else job.compute

    def trial(self) -> dict[str, Callable[[Wildcards], int | str]]:
        """The resources of `rtm doctor --gpu EXPERIMENT`: the resources of the training, for a few minutes."""

        def needed(wildcards: Wildcards) -> Resources:
            return self.job("train", self._training(wildcards)).compute

        return {
            "gpu": lambda wildcards: needed(wildcards).gpus,
            "gpu_model": lambda wildcards: self._gpu_model(needed(wildcards)),
            "mem_mb": lambda wildcards: needed(wildcards).mem_gb * 1000,
            "runtime": lambda _: 15,
        }

    def trial_threads(self, wildcards: Wildcards) -> int:
        return self.threads("train")(self._training(wildcards))

    def trials(self) -> list[str]:
        """The targets of `snakemake doctor`: a test of the experiment in `--config experiment=`, by default of the one
        with the most GPU-hours."""
        trainings = [job for job in self.graph.values() if job.stage is Stage.TRAIN and job.scale == "paper"]
        costly = max(trainings, key=lambda job: job.compute.gpus * job.compute.hours).subject.experiment
        return [f"logs/doctor/{self.site.get('experiment', costly)}.txt"]

    def _training(self, wildcards: Wildcards) -> Wildcards:
        known = (job.subject for job in self.graph.values() if job.stage is Stage.TRAIN)
        seed = next(subject.seed for subject in known if subject.experiment == wildcards.experiment)
        return SimpleNamespace(root="", experiment=wildcards.experiment, seed=seed)

    def _minutes(self, needed: Resources) -> int:
        """The minutes that a job asks for, at most the site's walltime."""
        whole = math.ceil(needed.hours * 60)
        return min(whole, int(self.site.get("walltime", whole)))

    def _gpu_model(self, needed: Resources) -> str:
        """The name of the GPU at this site."""
        return str(self.site.get("gpu_model", needed.gpu_model)) if needed.gpus else ""

    def _runs(self, executor: str) -> bool:
        """Whether this process starts jobs, and with this executor."""
        plugin = self.workflow.executor_plugin if self.workflow.is_main_process else None
        return plugin is not None and plugin.name == executor

    def _queued(self) -> list[Queued]:
        return waiting_jobs() if self._runs("slurm") else []

    def _refuse_impossible(self, job: Job) -> None:
        """Before anything is fetched, raise an error for a job that fits no node or a training without its GPUs."""
        if self._runs("slurm") and job.stage not in LOCAL_STAGES:
            self.cluster = self.cluster or self._checked_site()
            self.cluster.refuse_long(job.id, self._minutes(self._given(job)))
            refuse_impossible(job.id, self._given(job), self._gpu_model(job.compute))
        elif self._runs("local") and job.stage is Stage.TRAIN:
            check_devices(job.id, self._given(job), job.outputs[0])

    def _checked_site(self) -> Site:
        given = self.workflow.resource_settings.default_resources
        chosen = {name: _text(given, name) for name in ("slurm_partition", "slurm_account")}
        site = Site(chosen["slurm_partition"], chosen["slurm_account"])
        site.check()
        return site

    def reports(self, scale: str) -> list[str]:
        """The tables and figures of a scale."""
        wanted = (job for job in self.graph.values() if job.scale == scale and job.stage in (Stage.TABLE, Stage.FIGURE))
        return [str(job.outputs[0]) for job in wanted]

    def wildcards(self) -> dict[str, str]:
        """The allowed values of each wildcard, as patterns."""
        known = {name: {getattr(job.subject, name) for job in self.graph.values()} for name in NAMES}
        patterns = {
            name: _one_of(str(value) for value in values if value is not None) for name, values in known.items()
        }
        return {**patterns, "root": _one_of(job.root for job in self.graph.values()), "seed": "[0-9]+"}

    def _by_stage(self, job: Job) -> Files:
        files: Files = {}
        for before, path in job.reads():
            if str(path) not in self.coming:
                files.setdefault(before.stage, []).append(str(path))
        return files

    def _ask_store(self, job: Job) -> None:
        """Replace stale results of this job, and of all jobs before it, by results from the store. Inputs come first,
        because the other results depend on them."""
        if job.id in self.asked or self.ledger.state(job) is not State.STALE:
            return
        self.asked.add(job.id)
        for before in job.inputs:
            self._ask_store(before)
        if self.ledger.state(job) is State.STALE:
            self._serve(job)

    def _serve(self, job: Job) -> bool:
        """Bring a job's result from the store; in a dry run, plan as if it were here."""
        if not self.workflow.is_main_process or self.ledger.state(job) not in (State.STALE, State.ABSENT):
            return False
        found, runs = self.store.find(job), self._starts_jobs()
        if found is None or (runs and not self.store.bring(job, found)):
            return False
        self.ledger.assume(job, found.receipt)
        if not runs:
            self.coming |= {str(path) for path in job.outputs if not path.exists()}
            self._count_coming()
        print(f"{job.id} {'comes' if runs else 'would come'} from the store, {found}.", file=sys.stderr)
        return True

    def _starts_jobs(self) -> bool:
        """Whether jobs really start (no dry run, no --touch). If so, also tell the jobs not to ask the store again."""
        plugin = self.workflow.executor_plugin
        if plugin is None or plugin.common_settings.dryrun_exec or plugin.common_settings.touch_exec:
            return False
        os.environ.setdefault(SWITCH, "asked")
        return True

    def _count_coming(self) -> None:
        """Print the number of stored results at the end of a dry run, below Snakemake's list."""
        self.served += 1
        if self.served == 1:
            atexit.register(lambda: print(_would_come(self.served)))

    def _count_training(self, job: Job) -> None:
        """Remember a training. At the end of a dry run, print how long all will take; in a real run `onstart` does."""
        if not self.trainings and self.workflow.is_main_process and not self._starts_jobs():
            atexit.register(self.announce)
        self.trainings[job.id] = job

    def announce(self) -> None:
        """Print how long the trainings will take, side by side on this machine's cores or one after the other."""
        todo = list(self.trainings.values())
        if not todo or not self.workflow.is_main_process:
            return
        cores = self.workflow.resource_settings.cores or 1
        on_cores = not self._runs("slurm") and not any(job.compute.gpus for job in todo)
        at_a_time = cores // max(job.compute.cpus for job in todo) if on_cores else 1
        print(f"rtm: {forecast(todo, self.graph.values(), self.ledger, at_a_time)}", file=sys.stderr)

    def _ancient(self, files: Files) -> Files:
        return {name: [self.ancient(path) for path in paths] for name, paths in files.items()}

    def _check_triggers(self) -> None:
        """Raise an error if Snakemake would use its own records, because a clone does not have them."""
        if {str(trigger).lower() for trigger in self.workflow.rerun_triggers} != {"mtime"}:
            raise UserError("Receipts decide what is stale; use `--rerun-triggers mtime`, as profiles/default does.")

    def _refuse_lost(self, job: Job) -> None:
        """Raise an error before anything starts if the weights of a finished training must be pulled first."""
        refuse_lost(self.ledger, job)
        for before, path in job.reads():
            if before.temporary:
                self._refuse_lost(before)
            elif not (path.exists() or self._serve(before)) or self.ledger.state(before) is State.CHANGED:
                refuse_lost(self.ledger, before)

    def _redo(self, job: Job) -> None:
        """Print that a finished training will run again, and why; raise an error above the limit of GPU-hours."""
        if job.stage is not Stage.TRAIN or job.id in self.redone:
            return
        receipt = self.ledger.receipt(job)
        if receipt or job.outputs[0].exists():
            reasons = self.ledger.why(job) if receipt else [f"it {unsigned(job)}"]
            self.redone[job.id] = hours_of(receipt) if receipt else 0.0
            print(f"{job.id} will be trained again: {_few(reasons, job)}", file=sys.stderr)
        allowed = str(self.site.get("redo", os.environ.get("RTM_REDO", REDO)))
        if sum(self._counted_hours(allowed).values()) > _limit(allowed):
            raise UserError(self._too_costly(job))

    def _counted_hours(self, allowed: str) -> dict[str, float]:
        """The trainings that count against the limit: all that the user has not named."""
        named = [name.rstrip("/") for name in allowed.split(",")]
        return {
            each: hours for each, hours in self.redone.items() if not any(f"{each}/".startswith(f"{n}/") for n in named)
        }

    def _too_costly(self, job: Job) -> str:
        """The message that lists the stale finished trainings of the scale, the reasons, and what to do."""
        trained = [each for each in self.graph.values() if each.stage is Stage.TRAIN and each.scale == job.scale]
        finished = {each: found for each in trained if (found := self.ledger.receipt(each))}
        stale = {each: found for each, found in finished.items() if not self.ledger.stands(each)}
        lines = [
            f"  {each.id}: {hours_of(found):.1f} hours, {_few(self.ledger.why(each), each)}"
            for each, found in stale.items()
        ]
        total = sum(map(hours_of, stale.values()))
        return "\n".join(
            [
                f"Finished trainings would run again: {len(stale)}, {total:,.1f} GPU-hours.",
                *lines,
                f"After a refactoring that keeps the results: `rtm lineage accept {job.id} --reason '...'`.",
                "To use results that were made elsewhere or earlier: `rtm store pull`, then try again.",
                f"To train again: `--config redo={job.id}` (a name, several with commas, or a number of hours); with "
                f"DVC: `RTM_REDO={job.id} dvc repro`.",
            ]
        )

    def _fresh_mark(self, job: Job) -> str:
        """A file that is newer than all outputs. Its name is new, because for known names Snakemake compares the bytes.

        If a wrong clock gave files a time in the future, they would be newer than the mark; they get an earlier time.
        """
        if self.mark is None:
            MARKS.mkdir(parents=True, exist_ok=True)
            self.mark = MARKS / f"stale-{uuid.uuid4().hex}"
            self.mark.touch()
            atexit.register(self.mark.unlink, missing_ok=True)
        made = self.mark.stat().st_mtime
        for path in (*job.outputs, *(path for _, path in job.reads())):
            if path.exists() and path.stat().st_mtime >= made:
                os.utime(path, (made - 1, made - 1))
        return str(self.mark)


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


def _present(files: Files) -> Files:
    return {name: [path for path in paths if Path(path).exists()] for name, paths in files.items()}


def _text(resources: Any, name: str) -> str | None:
    """A default resource of the profile, if it is set."""
    found = resources.get(name) if resources is not None else None
    value = getattr(found, "raw", found)
    return None if value is None else str(value).strip("'\"")


def _would_come(number: int) -> str:
    return f"{counted(number, 'result')} would come from the store, not from a job, even if the list above has the job."


def hours_of(receipt: Mapping[str, Any]) -> float:
    """The cost of a result: GPU-hours, or hours if no GPU was used."""
    made = receipt["made"]
    return float(made.get("gpu_hours") or made.get("seconds", 0.0) / 3600)


def _limit(allowed: str) -> float:
    try:
        return float(allowed)
    except ValueError:  # `allowed` has names of trainings; the default limit is for the others
        return REDO


def _few(reasons: list[str], job: Job, most: int = 3) -> str:
    more = [f"{len(reasons) - most} more, see `rtm lineage why {job.id}`"] if len(reasons) > most else []
    return "; ".join(reasons[:most] + more)


def _one_of(names: Iterable[str]) -> str:
    """A pattern that matches these names; without names it matches nothing."""
    return "|".join(sorted(set(names), reverse=True)) or "(?!)"
