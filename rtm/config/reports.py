"""Tables, figures and published numbers: the models behind params/{tables,figures,published}.yaml."""

from collections import Counter
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, computed_field, model_validator

from rtm.config.base import SHA256, Key, Name, Once, Positive, Size, Strict, Whole

Metric = Literal[
    "fid",
    "fid_floor",
    "kid",
    "is",
    "precision",
    "recall",
    "density",
    "coverage",
    "sure",  # with the digit classifier
    "steps",  # these nine of recursive mappers
    "hardness",
    "z_change",
    "z_tail",
    "w_change",
    "flips",
    "feature_change",
    "rounding",
    "rounding_tail",
    "time_ms",  # these two from latency.json, the others from a protocol
    "mapper_parameters",
]
COST_METRICS: frozenset[str] = frozenset({"time_ms", "mapper_parameters"})
Better = Literal["higher", "lower"]
Digits = Annotated[int, Field(ge=0, le=12)]
Value = Annotated[float, Field(ge=0, le=1e12)]
SHARES: tuple[Metric, ...] = ("precision", "recall", "coverage", "sure")  # numbers from 0 to 1


class Published(Strict):
    """Numbers that others published, with their source; never shown as ours."""

    source: str  # who measured them and where they are published
    cite: Key | None = None  # BibTeX key of the method ...
    reference: str | None = None  # ... and the reference behind the key
    quoted: bool = False  # true: from a publication (a dagger); false: evaluated by the paper's authors
    values: dict[Metric, Value]

    @model_validator(mode="after")
    def _possible(self) -> "Published":
        if wrong := [name for name in SHARES if self.values.get(name, 0) > 1]:
            raise ValueError(f"{', '.join(wrong)} must lie between 0 and 1")
        return self


class Foreign(Strict):
    """Images that others generated, measured here under our protocols."""

    source: str  # whose images they are, and where they come from
    samples: str  # a folder of images, or an .npy or .npz file, from the repository's root
    sha256: SHA256  # of the file; for a folder, the value that `rtm evaluate` prints
    dataset: Name  # they are compared with its training set
    protocols: Annotated[tuple[Name, ...], Field(min_length=1), Once]
    cite: Key | None = None
    reference: str | None = None


class CellPart(Strict):
    """The source of a cell's value. Table, group, row and column each give a part. Names may contain {key}."""

    experiment: str | None = None  # measured here
    foreign: str | None = None  # measured here on images of params/foreign.yaml
    published: str | None = None  # a constant of params/published.yaml
    paper: str | None = None  # the paper's number for a measured cell: only for comparison, never shown as ours
    metric: Metric | None = None
    protocol: Name | None = None
    variant: Annotated[str, Field(pattern=r"^(native|H[1-9][0-9]*|halt_[0-9a-z_-]+)$")] | None = (
        None  # depth at inference
    )


class CellSpec(CellPart):
    """A cell with its parts merged. A table's job holds all of them by value, so the receipt records every cell."""

    row: str
    column: str
    section: str | None = None  # of a summary: "<protocol>", "<protocol>_H8", "latency", "latency_H8"
    better: Better | None = None  # None: not compared


class Column(CellPart):
    title: str  # plain text; $...$ is mathematics, a line break breaks the line
    better: Better | None = None
    mark: bool = True  # mark its best values; false if the paper does not
    digits: Digits | None = None  # decimals
    significant: Annotated[int, Field(gt=0, le=12)] | None = None  # significant digits instead
    whole_from: Positive | None = None  # values of at least this have no decimals
    unit: Literal["", "k", "M"] = ""
    times: Positive = 1  # values are multiplied by this before they are shown; the title must say so

    @property
    def id(self) -> str:
        """A name without spaces: the metric, or the method if columns are methods."""
        return self.metric or (self.experiment or self.foreign or self.published or "").replace("{key}", "").strip("_")


class Row(CellPart):
    title: str
    better: Better | None = None
    key: Name | None = None
    ours: bool = False


class Group(CellPart):
    title: str | None = None  # a separate line above the rows
    label: str | None = None  # a first column that spans the rows, also those of a next group with this label
    key: Name | None = None
    rows: Annotated[tuple[Row, ...], Field(min_length=1)]

    def id(self, row: Row) -> str:
        named = row.published or row.foreign or row.experiment or self.experiment
        parts = (named, row.key or self.key, row.metric, row.variant)
        return "_".join(part for part in parts if part) or row.title


class Table(CellPart):
    title: str
    label: Key
    caption: str
    head: tuple[str, ...] = ("Method",)  # titles of the columns that name the row; two if groups have labels
    columns: Annotated[tuple[Column, ...], Field(min_length=1)]
    groups: Annotated[tuple[Group, ...], Field(min_length=1)]
    best: Literal["column", "row", "group"] = "column"  # where the best value is bold: in each ...
    second: bool = False  # underline the second best
    digits: Digits = 3
    better: Better | None = None
    average: bool = False  # add a last group with the means of the columns, one row for each metric
    mixed_protocols: bool = False  # allow cells of different protocols

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def cells(self) -> tuple[CellSpec, ...]:
        """Every cell, row by row."""
        places = ((group, row, column) for group in self.groups for row in group.rows for column in self.columns)
        return tuple(_merged(self, *place) for place in places)

    def experiments(self) -> list[str]:
        """The experiments that the table reads, in the order of its rows."""
        return list(dict.fromkeys(cell.experiment for cell in self.cells if cell.experiment))

    def foreign_parts(self) -> list[tuple[str, str]]:
        """The foreign images in this table, each with its protocol."""
        return list(dict.fromkeys((cell.foreign, str(cell.protocol)) for cell in self.cells if cell.foreign))

    def constants(self) -> list[str]:
        """The published entries that the table shows or compares with."""
        return list(dict.fromkeys(name for cell in self.cells for name in (cell.published, cell.paper) if name))

    @model_validator(mode="after")
    def _complete(self) -> "Table":
        names: Counter[tuple[str, str]] = Counter((cell.row, cell.column) for cell in self.cells)
        titles = [(row.title, column.title) for group in self.groups for row in group.rows for column in self.columns]
        for cell, (row, column) in zip(self.cells, titles, strict=True):
            place = f"row {row!r}, column {column!r}"
            if cell.metric is None:
                raise ValueError(f"{place}: give a metric")
            if [cell.experiment, cell.foreign, cell.published].count(None) != 2:
                raise ValueError(f"{place}: give exactly one of experiment, foreign and published")
            if not cell.published and cell.section is None:
                raise ValueError(f"{place}: give a protocol")
            if names[cell.row, cell.column] > 1:
                raise ValueError(f"{place}: another cell has the same name {cell.row}/{cell.column}; set a key")
        if any(group.label for group in self.groups) != (len(self.head) == 2):
            raise ValueError("head needs two titles if groups have labels, otherwise one")
        return self

    @model_validator(mode="after")
    def _one_protocol(self) -> "Table":
        used = {cell.protocol for cell in self.cells if not cell.published and cell.metric not in COST_METRICS}
        if len(used) > 1 and not self.mixed_protocols:
            raise ValueError(
                f"numbers of different protocols ({', '.join(sorted(map(str, used)))}) cannot be compared; "
                "use one, or set mixed_protocols: true"
            )
        return self


def _merged(table: Table, group: Group, row: Row, column: Column) -> CellSpec:
    """Merge the four parts of a cell: the column overrides the row, the row its group, the group the table."""
    key = row.key or group.key or ""
    part: dict[str, str] = {}
    for source in (table, group, row, column):
        given = {field: getattr(source, field) for field in CellPart.model_fields}
        part |= {field: value.replace("{key}", key) for field, value in given.items() if value is not None}
    better = (column.better or row.better or table.better) if column.mark else None
    section = _section(CellPart.model_validate(part))
    return CellSpec(row=group.id(row), column=column.id, section=section, better=better, **part)  # type: ignore[arg-type]


def _section(part: CellPart) -> str | None:
    kind = "latency" if part.metric in COST_METRICS else part.protocol
    native = part.variant in (None, "native") or part.metric == "mapper_parameters"
    return kind if native or kind is None else f"{kind}_{part.variant}"


class Figure(Strict):
    kind: Literal[
        "samples",
        "slerp",
        "neighbours",
        "pairs",
        "curves",
        "progress",
        "sweep",
        "convergence",
        "precision_recall",
        "rejected",
    ]
    title: str
    caption: str
    experiments: Annotated[tuple[Name, ...], Field(min_length=1)]  # baseline first
    rows: Size = 8
    columns: Size = 8
    skip: Whole = 0  # leave out the first samples, for a second figure of the same gallery
    metrics: tuple[Metric, ...] = ("fid", "precision", "recall")  # progress, sweep
    protocol: Name | None = None  # sweep, convergence
    table: Name | None = None  # precision_recall: the methods of this table

    @computed_field  # type: ignore[prop-decorator]
    @property
    def images(self) -> int:
        """The number of samples that it needs from each gallery, at most."""
        return self.skip + self.rows * self.columns if self.kind in ("samples", "pairs") else 0

    @model_validator(mode="after")
    def _complete(self) -> "Figure":
        if self.kind in ("sweep", "convergence") and self.protocol is None:
            raise ValueError(f"a {self.kind} needs a protocol")
        if self.kind == "precision_recall" and self.table is None:
            raise ValueError("precision_recall needs a table")
        return self
