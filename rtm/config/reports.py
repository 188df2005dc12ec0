"""Tables, figures and published numbers: the models behind params/{tables,figures,published}.yaml."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from rtm.config.base import SHA256, Count, Name, Once, Positive, Strict

Metric = Literal[
    "fid", "is", "precision", "recall", "density", "coverage", "time_ms", "mapper_parameters"
]  # the last two come from latency.json, the others from a protocol
COST_METRICS: frozenset[str] = frozenset({"time_ms", "mapper_parameters"})
Better = Literal["higher", "lower"]
Digits = Annotated[int, Field(ge=0)]


class Published(Strict):
    """Numbers of somebody else, with where they stand; never shown as ours."""

    source: str  # who measured them and where they stand
    cite: str | None = None  # BibTeX key of the method ...
    reference: str | None = None  # ... and what it stands for
    quoted: bool = False  # from a publication: a dagger; otherwise evaluated by the paper's authors
    values: dict[Metric, float]


class Foreign(Strict):
    """Somebody else's images, measured here under our protocols."""

    source: str  # whose images, and where they were got
    samples: str  # a folder of images, or an .npy or .npz file, from the repository's root
    sha256: SHA256  # of the file; of a folder as `rtm evaluate` tells it
    dataset: Name  # whose training set they are compared with
    protocols: Annotated[tuple[Name, ...], Field(min_length=1), Once]
    cite: str | None = None
    reference: str | None = None


class CellPart(Strict):
    """What fills a cell; table, group, row and column each give a part. Names may hold {key}."""

    experiment: str | None = None  # measured here
    foreign: str | None = None  # measured here on images of params/foreign.yaml
    published: str | None = None  # a constant of params/published.yaml
    paper: str | None = None  # what the paper reports for a measured cell: to compare, never to show
    metric: Metric | None = None
    protocol: Name | None = None
    variant: Annotated[str, Field(pattern=r"^(native|H[1-9][0-9]*)$")] | None = None  # H at inference

    @property
    def section(self) -> str | None:
        """Where a summary keeps the number: "<protocol>", "<protocol>_H8", "latency", "latency_H8"."""
        kind = "latency" if self.metric in COST_METRICS else self.protocol
        native = self.variant in (None, "native")
        return kind if native or kind is None or self.metric == "mapper_parameters" else f"{kind}_{self.variant}"


class Column(CellPart):
    title: str  # plain text; $...$ is mathematics, a line break breaks the line
    better: Better | None = None
    mark: bool = True  # compare its values; false where the paper does not
    digits: Digits | None = None  # decimals
    significant: Count | None = None  # significant digits instead
    whole_from: Positive | None = None  # values from here on have no decimals
    unit: Literal["", "k", "M"] = ""

    @property
    def id(self) -> str:
        """A name without spaces: the metric, or the method where columns are methods."""
        return self.metric or (self.experiment or self.foreign or self.published or "").replace("{key}", "").strip("_")


class Row(CellPart):
    title: str
    better: Better | None = None
    key: Name | None = None
    ours: bool = False


class Group(CellPart):
    title: str | None = None  # a line of its own above the rows
    label: str | None = None  # a first column that spans the rows, and those of the next group of this label
    key: Name | None = None
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]

    def id(self, row: Row) -> str:
        named = row.published or row.foreign or row.experiment or self.experiment
        parts = (named, row.key or self.key, row.metric, row.variant)
        return "_".join(part for part in parts if part) or row.title


class Table(CellPart):
    title: str
    label: str
    caption: str
    head: tuple[str, ...] = ("Method",)  # titles of the columns that name the row; two where groups have labels
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]
    best: Literal["column", "row", "group"] = "column"  # within what the best value is bold
    second: bool = False  # underline the second best
    digits: Digits = 3
    better: Better | None = None
    average: bool = False  # a last group of the columns' means, one row a metric
    mixed_protocols: bool = False  # allow cells of different protocols

    def parts(self) -> Iterator[tuple[Group, Row, Column, CellPart]]:
        """Every cell with its four parts merged, the column's word last."""
        for group in self.groups:
            for row in group.rows:
                for column in self.columns:
                    yield group, row, column, self.merged(row, column, group)

    def merged(self, row: Row, column: Column, group: Group | None = None) -> CellPart:
        key = row.key or (group.key if group else None) or ""
        part: dict[str, str] = {}
        for source in (self, group, row, column):
            part |= {
                field: value.replace("{key}", key)
                for field in CellPart.model_fields
                if (value := getattr(source, field, None)) is not None
            }
        return CellPart.model_validate(part)

    def experiments(self) -> list[str]:
        """The experiments that the table reads, in the order of its rows."""
        return list(dict.fromkeys(part.experiment for *_, part in self.parts() if part.experiment))

    def foreign_parts(self) -> list[tuple[str, str]]:
        """Others' images with the protocol that they are measured under."""
        return list(dict.fromkeys((part.foreign, str(part.protocol)) for *_, part in self.parts() if part.foreign))

    def constants(self) -> list[str]:
        """The published entries that it shows or compares with."""
        names = (name for *_, part in self.parts() for name in (part.published, part.paper) if name)
        return list(dict.fromkeys(names))

    @model_validator(mode="after")
    def _cells(self) -> "Table":
        seen: set[tuple[str, str]] = set()
        for group, row, column, part in self.parts():
            place = f"row {row.title!r}, column {column.title!r}"
            if part.metric is None:
                raise ValueError(f"{place}: no metric")
            if [part.experiment, part.foreign, part.published].count(None) != 2:
                raise ValueError(f"{place}: give exactly one of experiment, foreign and published")
            if not part.published and part.section is None:
                raise ValueError(f"{place}: no protocol")
            name = (group.id(row), column.id)
            if name in seen:
                raise ValueError(f"{place}: another cell has the same name {'/'.join(name)}; set a key")
            seen.add(name)
        if any(group.label for group in self.groups) != (len(self.head) == 2):
            raise ValueError("head has two titles where groups have labels, otherwise one")
        return self

    @model_validator(mode="after")
    def _one_protocol(self) -> "Table":
        measured = (part for *_, part in self.parts() if not part.published)
        used = {part.protocol for part in measured if part.metric not in COST_METRICS}
        if len(used) > 1 and not self.mixed_protocols:
            raise ValueError(
                f"numbers of different protocols ({', '.join(sorted(map(str, used)))}) do not compare; "
                "use one, or set mixed_protocols: true"
            )
        return self


class Figure(Strict):
    kind: Literal[
        "samples", "slerp", "neighbours", "pairs", "curves", "progress", "sweep", "precision_recall", "rejected"
    ]
    title: str
    caption: str
    experiments: Annotated[tuple[Name, ...], Field(min_length=1)]  # baseline first
    rows: Count = 8
    columns: Count = 8
    skip: Annotated[int, Field(ge=0)] = 0  # samples passed over, for a second figure of the same gallery
    metrics: tuple[Metric, ...] = ("fid", "precision", "recall")  # progress, sweep
    protocol: Name | None = None  # sweep
    table: Name | None = None  # precision_recall: the methods of this table

    @property
    def images(self) -> int:
        """How many samples of each gallery it shows at most."""
        return self.skip + self.rows * self.columns if self.kind in ("samples", "pairs") else 0

    @model_validator(mode="after")
    def _complete(self) -> "Figure":
        if self.kind == "sweep" and self.protocol is None:
            raise ValueError("a sweep needs a protocol")
        if self.kind == "precision_recall" and self.table is None:
            raise ValueError("precision_recall needs a table")
        return self
