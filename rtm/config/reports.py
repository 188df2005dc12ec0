"""Tables, figures and published numbers: the models behind params/{tables,figures,published}.yaml."""

import itertools
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, computed_field, model_validator

from rtm.config.base import Key, Name, Positive, Size, Strict, Whole
from rtm.config.catalogue import METRICS, Better, is_cost, known_metric, measured_metrics


def _known(schema: dict[str, Any]) -> None:
    """Let editors offer the names of the metrics."""
    schema["enum"] = [metric.name for metric in measured_metrics()]


Metric = Annotated[str, AfterValidator(known_metric), Field(json_schema_extra=_known)]
Digits = Annotated[int, Field(ge=0, le=12)]
Value = Annotated[float, Field(ge=0, le=1e12)]


class Published(Strict):
    """Numbers that others published, with their source; never shown as ours."""

    source: str  # who measured them and where they are published
    cite: Key | None = None  # BibTeX key of the method ...
    reference: str | None = None  # ... and the reference behind the key
    quoted: bool = False  # true: from a publication (a dagger); false: evaluated by the paper's authors
    values: dict[Metric, Value]

    @model_validator(mode="after")
    def _possible(self) -> "Published":
        shares = {name: value for name, value in self.values.items() if METRICS[name].share}
        wrong = [name for name, value in shares.items() if value > 1]
        if wrong:
            raise ValueError(f"{', '.join(wrong)} must lie between 0 and 1")
        return self


class CellPart(Strict):
    """The source of a cell's value. TableEntry, group, row and column each give a part. Names may contain {key}."""

    experiment: str | None = None  # measured here
    measured: Annotated[str, Field(pattern=r"\.json$")] | None = None  # a file of `rtm evaluate A B --json FILE`
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
        source = self.experiment or _stem(self.measured) or self.published or ""
        return self.metric or source.replace("{key}", "").strip("_")


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
        named = row.published or _stem(row.measured) or row.experiment or self.experiment
        parts = (named, row.key or self.key, row.metric, row.variant)
        return "_".join(part for part in parts if part) or row.title


class TableEntry(CellPart):
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

    def measured_files(self) -> list[Path]:
        """The files of `rtm evaluate` that the table shows."""
        return list(dict.fromkeys(Path(cell.measured) for cell in self.cells if cell.measured))

    def constants(self) -> list[str]:
        """The published entries that the table shows or compares with."""
        names = [name for cell in self.cells for name in (cell.published, cell.paper)]
        return [name for name in dict.fromkeys(names) if name]

    @model_validator(mode="after")
    def _complete(self) -> "TableEntry":
        names: Counter[tuple[str, str]] = Counter((cell.row, cell.column) for cell in self.cells)
        rows = [row.title for group in self.groups for row in group.rows]
        titles = list(itertools.product(rows, [column.title for column in self.columns]))
        for cell, (row, column) in zip(self.cells, titles, strict=True):
            place = f"row {row!r}, column {column!r}"
            if cell.metric is None:
                raise ValueError(f"{place}: give a metric")
            if [cell.experiment, cell.measured, cell.published].count(None) != 2:
                raise ValueError(f"{place}: give exactly one of experiment, measured and published")
            if not cell.published and cell.section is None:
                raise ValueError(f"{place}: give a protocol")
            direction = METRICS[cell.metric].better
            if cell.better and direction and cell.better != direction:
                raise ValueError(f"{place}: of {cell.metric}, {direction} is better, not {cell.better}")
            if names[cell.row, cell.column] > 1:
                raise ValueError(f"{place}: another cell has the same name {cell.row}/{cell.column}; set a key")
        if any(group.label for group in self.groups) != (len(self.head) == 2):
            raise ValueError("head needs two titles if groups have labels, otherwise one")
        return self

    @model_validator(mode="after")
    def _one_protocol(self) -> "TableEntry":
        used = {cell.protocol for cell in self.cells if not cell.published and not is_cost(cell.metric)}
        if len(used) > 1 and not self.mixed_protocols:
            raise ValueError(
                f"numbers of different protocols ({', '.join(sorted(map(str, used)))}) cannot be compared; "
                "use one, or set mixed_protocols: true"
            )
        return self


def _stem(file: str | None) -> str:
    return Path(file).stem if file else ""


def _merged(table: TableEntry, group: Group, row: Row, column: Column) -> CellSpec:
    """Merge the four parts of a cell: the column overrides the row, the row its group, the group the table."""
    key = row.key or group.key or ""
    part: dict[str, str] = {}
    for source in (table, group, row, column):
        for field in CellPart.model_fields:
            value = getattr(source, field)
            if value is not None:
                part[field] = value.replace("{key}", key)
    better = (column.better or row.better or table.better) if column.mark else None
    section = _section(CellPart.model_validate(part))
    return CellSpec(row=group.id(row), column=column.id, section=section, better=better, **part)


def _section(part: CellPart) -> str | None:
    kind = "latency" if is_cost(part.metric) else part.protocol
    native = part.variant in (None, "native") or part.metric == "mapper_parameters"
    return kind if native or kind is None else f"{kind}_{part.variant}"


class FigureEntry(Strict):
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
    def _complete(self) -> "FigureEntry":
        if self.kind in ("sweep", "convergence") and self.protocol is None:
            raise ValueError(f"a {self.kind} needs a protocol")
        if self.kind == "precision_recall" and self.table is None:
            raise ValueError("precision_recall needs a table")
        return self
