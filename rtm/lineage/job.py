"""A job: one call of a verb, with everything that it reads and makes. `rtm.pipeline.graph` builds the jobs."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rtm.config.experiments import Resources
from rtm.core.layout import Layout

Keeper = Literal["git", "dvc", "nobody"]


class Stage(StrEnum):
    FETCH = "fetch"
    REFERENCE = "reference"
    TRAIN = "train"
    SAMPLE = "sample"
    GALLERY = "gallery"
    EVALUATE = "evaluate"
    FOREIGN = "foreign"
    LATENCY = "latency"
    SUMMARY = "summary"
    TABLE = "table"
    FIGURE = "figure"
    REPORT = "report"

    @property
    def is_view(self) -> bool:
        """Whether it only shows files. A view may also show files without a receipt; then it is stale."""
        return self in (Stage.TABLE, Stage.FIGURE, Stage.REPORT)


@dataclass(frozen=True)
class Subject:
    """The subject of a job. The order of the fields is the order of the parts of the job's name."""

    dataset: str | None = None
    network: str | None = None
    experiment: str | None = None
    foreign: str | None = None
    table: str | None = None
    figure: str | None = None
    protocol: str | None = None
    seed: int | None = None

    @cached_property
    def name(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        parts = [f"seed{value}" if key == "seed" else str(value) for key, value in values.items() if value is not None]
        return "/".join(parts) or "index"


@dataclass(frozen=True, eq=False)
class Job:
    scale: str
    root: str  # folder of its scale with a slash at the end; "" is the repository
    stage: Stage
    subject: Subject
    params: Any = field(repr=False)  # JSON: the values that it reads
    entries: tuple[str, ...] = field(repr=False)  # "module" or "module:name": the code that makes the outputs
    inputs: tuple["Job", ...] = field(repr=False)
    outputs: tuple[Path, ...]
    compute: Resources = field(repr=False)
    keeper: Keeper = "dvc"  # who keeps the outputs; if nobody does, they are made again when they are needed
    temporary: bool = False  # the outputs are deleted after the next jobs
    volatile: tuple[Path, ...] = ()  # outputs that matter only for jobs that read them: times, a test split

    @property
    def name(self) -> str:
        return self.subject.name

    @cached_property
    def id(self) -> str:
        return f"{self.root}{self.stage}/{self.name}"

    @property
    def command(self) -> str:
        """The verb that makes it."""
        subject, given = self.subject, {"--protocol": self.subject.protocol, "--seed": self.subject.seed}
        options = [word for option, value in given.items() if value is not None for word in (option, str(value))]
        return shlex.join(["rtm", self.stage, str(subject.experiment or subject.name), "--scale", self.scale, *options])

    @property
    def receipt(self) -> Path:
        if self.temporary:
            return self.outputs[0] / "receipt.json"  # deleted with the folder
        return Layout(Path(self.root), Path(self.root)).receipt(self.stage, self.name)

    def reads(self) -> Iterator[tuple["Job", Path]]:
        """The jobs before it, each with the file that it reads; for example, a figure may read a training's curve."""
        for before in self.inputs:
            yield before, before.volatile[0] if self.stage is Stage.FIGURE and before.volatile else before.outputs[0]

    def upstream(self) -> Iterator["Job"]:
        """The job and all jobs that it depends on, each once, inputs first."""
        seen: set[str] = set()

        def walk(job: "Job") -> Iterator["Job"]:
            for before in job.inputs:
                if before.id not in seen:
                    yield from walk(before)
            seen.add(job.id)
            yield job

        return walk(self)
