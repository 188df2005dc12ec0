"""What a stage is, and the jobs of a configuration.

A stage is one class in one file of this folder: the files that it makes, the jobs that it reads, the values of
`params/` and the code behind them, its cost, and how it is made. The graph, the verbs, Snakemake's rules, DVC's stages,
the receipts and the list of files in docs/architecture.md derive from these classes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

from rtm.config import Config, Experiment
from rtm.config.experiments import Protocol, Resources

Keeper = Literal["git", "dvc", "nobody"]
Names = Mapping[str, str | int]
Values = dict[str, Any]
LIGHT = Resources(gpus=0, cpus=1, mem_gb=4, hours=1)


class Stage:
    """A kind of job. The class's name in lower case is the stage's name, its docstring is its help text."""

    name: ClassVar[str]
    parts: ClassVar[tuple[str, ...]] = ("experiment",)  # of a job's name: latency/cifar10_imle_rtm
    files: ClassVar[Mapping[str, str]]  # what it makes; no other place has these paths
    reads: ClassVar[Mapping[str, str]] = {}  # stage: which of its files
    folder: ClassVar[Literal["root", "shared", "networks"]] = "root"  # of the scale; the files are below it
    keeper: ClassVar[Keeper | None] = None  # who keeps the files; None: git or DVC, as the scale says
    apart: ClassVar[tuple[str, ...]] = ()  # files that count only for the jobs that read them: times, a test split
    compared: ClassVar[Mapping[str, Literal["metrics", "plots"]]] = {}  # files that DVC compares between commits
    optional: ClassVar[tuple[str, ...]] = ()  # files that not every job makes
    shows: ClassVar[bool] = False  # it only shows results, also unsigned ones; then it is stale
    local: ClassVar[bool] = True  # it runs where Snakemake runs, not on a cluster
    alone: ClassVar[bool] = False  # it is timed, so nothing may run beside it

    def __init_subclass__(cls) -> None:
        cls.name = cls.__name__.lower()

    def every(self, config: Config) -> Iterator[Names]:
        """The names of the jobs of a scale."""
        yield from _combinations(config, self.parts)

    def needs(self, job: "Job") -> Iterable["Job"]:
        """The jobs that it reads."""
        return ()

    def values(self, job: "Job") -> Values:
        """The values of `params/` that it reads, as JSON."""
        return {}

    def code(self, job: "Job") -> tuple[str, ...]:
        """Modules, classes ("module:Class") and folders ("rtm/page/web") that make it."""
        return ()

    def cost(self, job: "Job") -> Resources:
        return LIGHT

    def outputs(self, job: "Job") -> Iterable[str]:
        """Which of its files this job makes."""
        return self.files

    def make(self, job: "Job", recording: "Recording", **options: Any) -> None:
        """Make the files; `options` are those of its verb. Imports of heavy modules are here, not above."""
        raise NotImplementedError

    def job(self, config: Config, **names: str | int) -> "Job":
        texts = {part: str(names[part]) for part in self.parts}
        key = "/".join([self.name, *texts.values()])
        known = _jobs.setdefault(config, {})
        if key not in known:
            known[key] = Job(self, config, texts)
        return known[key]

    def path(self, config: Config, key: str, **names: str | int) -> Path:
        """A file of a job, by the names in its pattern."""
        folder: Path = getattr(config, self.folder)
        return folder / self.files[key].format(**names)


@dataclass
class Recording:
    """What a running job knows of its receipt: what it is made from, the receipt before, and facts to add."""

    fingerprint: str
    parts: Values
    before: Values = field(default_factory=dict)
    facts: Values = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Job:
    """One result: a stage, and the names of what it is about."""

    stage: Stage
    config: Config
    names: Mapping[str, str]

    @cached_property
    def name(self) -> str:
        parts = [f"seed{value}" if part == "seed" else value for part, value in self.names.items()]
        return "/".join(parts) or "index"

    @cached_property
    def root(self) -> str:
        """The folder of the scale with a slash at the end; "" is the repository."""
        folder: Path = getattr(self.config, self.stage.folder)
        return "" if folder == Path() else f"{folder}/"

    @cached_property
    def id(self) -> str:
        return f"{self.root}{self.stage.name}/{self.name}"

    @property
    def experiment(self) -> Experiment:
        return self.config.experiment(self.names["experiment"])

    @property
    def seed(self) -> int:
        return int(self.names["seed"])

    @property
    def protocol(self) -> Protocol:
        return self.config.params.protocols[self.names["protocol"]]

    @cached_property
    def inputs(self) -> tuple["Job", ...]:
        return tuple({job.id: job for job in self.stage.needs(self)}.values())

    @cached_property
    def outputs(self) -> dict[str, Path]:
        return {key: self.stage.path(self.config, key, **self.names) for key in self.stage.outputs(self)}

    @property
    def first(self) -> Path:
        """The file that stands for the job as a target."""
        return next(iter(self.outputs.values()))

    @property
    def values(self) -> Values:
        return self.stage.values(self)

    @property
    def code(self) -> tuple[str, ...]:
        """The entries of the code behind it: its stage's `make`, and what the stage names."""
        stage = type(self.stage)
        return (f"{stage.__module__}:{stage.__name__}.make", *self.stage.code(self))

    @cached_property
    def cost(self) -> Resources:
        return self.stage.cost(self)

    @property
    def keeper(self) -> Keeper:
        return self.stage.keeper or ("git" if self.config.scale.in_git else "dvc")

    @cached_property
    def receipt(self) -> Path:
        return Path(f"{self.root}lineage/{self.stage.name}/{self.name}.json")

    @property
    def log(self) -> Path:
        """What it printed, under Snakemake."""
        return Path(f"{self.root}logs/{self.stage.name}/{self.name}.log")

    def reads(self) -> Iterator[tuple["Job", Path]]:
        """The jobs before it, each with the file that it reads."""
        for before in self.inputs:
            yield before, before.outputs[self.stage.reads[before.stage.name]]

    def input(self, stage: type[Stage]) -> "Job":
        """The first job before it of this stage."""
        return next(before for before in self.inputs if isinstance(before.stage, stage))

    def upstream(self) -> Iterator["Job"]:
        """The job and all jobs that it depends on, each once, inputs first."""
        return upstream([self])


_jobs: WeakKeyDictionary[Config, dict[str, Job]] = WeakKeyDictionary()


def upstream(jobs: Iterable[Job]) -> Iterator[Job]:
    """These jobs and all that they depend on, each once, inputs first."""
    seen: set[str] = set()

    def walk(job: Job) -> Iterator[Job]:
        if job.id in seen:
            return
        seen.add(job.id)
        for before in job.inputs:
            yield from walk(before)
        yield job

    for job in jobs:
        yield from walk(job)


def _combinations(config: Config, parts: tuple[str, ...]) -> Iterator[Names]:
    """The names of all jobs with these parts: experiments with their protocols and seeds, tables, figures, datasets."""
    if "experiment" not in parts:
        options: dict[str, Iterable[str]] = {
            "table": config.tables,
            "figure": config.figures,
            "dataset": config.params.datasets,
        }
        yield from ({part: name} for part in parts for name in options[part])
        return
    for experiment in config.experiments.values():
        protocols = experiment.recipe.evaluation.protocols if "protocol" in parts else ("",)
        seeds = experiment.seeds if "seed" in parts else (0,)
        for protocol, seed in product(protocols, seeds):
            names: Names = {"experiment": experiment.name, "protocol": protocol, "seed": seed}
            yield {part: names[part] for part in parts}
