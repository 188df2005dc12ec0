"""reports/index.html: one page with all results so far, which needs only a browser."""

import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from rtm.config import Config
from rtm.config.catalogue import is_cost, measured_metrics
from rtm.config.reports import Column, Group, Row, TableEntry
from rtm.core.advice import back
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.core.readers import reading
from rtm.page.curves import address, panels, read_curve
from rtm.pipeline.amounts import duration
from rtm.pipeline.status import RunStatus
from rtm.reports.cells import OURS, Cell, Line, Sheet
from rtm.reports.chain import Chains, Link
from rtm.reports.commands import making
from rtm.reports.comparison import comparisons
from rtm.reports.curves import Rows
from rtm.reports.figures import MOSAICS
from rtm.reports.mathematics import Piece, pieces, plain
from rtm.reports.notes import stands_in
from rtm.reports.sheets import build
from rtm.reports.summary import Section, read_summary
from rtm.reports.tables import ARROWS, label_spans
from rtm.stages.figure import Figure
from rtm.stages.report import Report
from rtm.stages.train import Train

IMAGE_WIDTH = 1400  # pixels: twice the width on the page
GRID_WIDTH = 700
SMALL = 400  # pixels; a smaller picture is enlarged, so that its pixels stay sharp
LOSSLESS = 300_000  # bytes; larger pictures are compressed with invisible losses
LOG_LINES = 15
FEW = 12  # a state with at most this many runs is shown open
STATES = ("failed", "changed", "running", "waiting", "done")  # in the order of the page
OUTSIDE = "outside"  # the name of the sheet of experiments that no table shows


@dataclass(frozen=True)
class Story:
    """The explanation of cells: a chain, a source, or the reason of a gap."""

    id: str
    title: str
    text: str = ""
    links: tuple[Link, ...] = ()
    broken: bool = False

    @property
    def changed(self) -> bool:
        return any(link.changes for link in self.links)


@dataclass(frozen=True)
class Difference:
    text: str  # our number minus the paper's, or a note that both are equal
    percent: str
    verdict: str  # better, worse, same; "" if neither is better


@dataclass(frozen=True)
class Drawing:
    name: str
    title: str
    caption: str
    source: str | None  # a data: address; None: not drawn yet
    size: tuple[int, int]
    command: str
    changed: bool  # whether its inputs changed since it was drawn
    of_images: bool


@dataclass(frozen=True)
class Grid:
    """The newest samples of a training that no figure shows yet."""

    run: RunStatus
    step: int
    path: Path
    source: str
    size: tuple[int, int]


def write_page(config: Config, runs: Sequence[RunStatus], refresh: int | None = None) -> Path:
    """Write the page; gaps show the command that fills them. A browser loads it again every `refresh` seconds."""
    sheets = [build(config, name) for name in config.tables]
    outside = _outside(config)
    stories = _Stories(config, [*sheets, *outside])
    sentences = {sheet.name: comparisons(sheet) for sheet in sheets}
    drawings = [_drawing(config, stories.chains, name) for name in config.figures]
    page = environment().get_template("page.html.j2").render(
        scale=config.scale_name,
        refresh=refresh,
        runs={state: [run for run in runs if run.state == state] for state in STATES},
        log=partial(_log, config),
        few=FEW,
        sheets=sheets,
        blank=[sheet for sheet in sheets if all(cell.value is None for cell in sheet.cells)],
        outside=outside,
        results=sentences,
        result=next(chain.from_iterable(sentences.values()), None),
        spans={sheet.name: label_spans(sheet) for sheet in (*sheets, *outside)},
        compared=[] if stands_in(config) else [sheet for sheet in sheets if compared_lines(sheet)],
        story=stories.name,
        stories=stories.all,
        changed={sheet.name for sheet in sheets if stories.chains.changed(sheet.job)},
        drawings=drawings,
        grids=list(_grids(runs, _pictured(config, drawings))),
        curves=dict(_curves(config, runs)),
        measured=_measured(sheets),
    )  # fmt: skip
    path = Report().path(config, "page")
    write_text(path, page)
    return path


def environment() -> Environment:
    env = Environment(
        loader=PackageLoader("rtm.page", "web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    env.filters |= {"rich": rich, "duration": duration, "plain": plain}
    env.globals |= {"arrows": ARROWS, "difference": difference, "compared_lines": compared_lines}
    env.globals |= {"compared_columns": compared_columns, "reported": reported}
    return env


def rich(text: str) -> Markup:
    """Plain text to HTML: $...$ is mathematics, `...` is code, line breaks are kept."""
    return Markup("").join(map(_piece, pieces(text)))


def _piece(piece: Piece) -> Markup:
    if piece.kind == "math":
        return piece.html
    if piece.kind == "code":
        return Markup("<code>{}</code>").format(piece.text)
    return Markup("<br>").join(piece.text.split("\n"))


def compared_lines(sheet: Sheet) -> list[Line]:
    return [line for line in sheet.lines if any(cell.paper is not None for cell in line.cells)]


def compared_columns(sheet: Sheet) -> list[Column]:
    compared = {cell.column for cell in sheet.cells if cell.paper is not None}
    return [column for column in sheet.table.columns if column.id in compared]


def difference(cell: Cell) -> Difference | None:
    """Our number minus the paper's, with the decimals that the table shows."""
    if cell.value is None or cell.paper is None:
        return None
    gap = cell.value - cell.paper
    text = cell.write(abs(gap))
    if not any(digit in text for digit in "123456789"):
        return Difference("= paper", "", "same")
    sign = "+" if gap > 0 else "−"
    percent = f"{sign}{abs(gap / cell.paper):.1%}" if cell.paper else ""
    verdict = ""
    if cell.part.better:
        is_higher_better = cell.part.better == "higher"
        verdict = "better" if (gap > 0) == is_higher_better else "worse"
    return Difference(sign + text, percent, verdict)


def reported(cell: Cell, sheet: Sheet) -> str:
    """The paper's number with the decimals of most numbers in its column, or with more if it has more."""
    assert cell.paper is not None
    if cell.part.paper is None or cell.heading.significant:  # a mean has no published decimals
        return cell.write(cell.paper)
    column = [other for other in sheet.cells if other.column == cell.column and other.part.paper]
    beside = [_decimals(other.paper) for other in column if other.paper is not None]
    usual = max(beside, key=lambda decimals: (beside.count(decimals), decimals))
    decimals = max(usual, _decimals(cell.paper))
    return f"{cell.paper:,.{decimals}f}"


def _decimals(number: float) -> int:
    return len(f"{number:.12g}".partition(".")[2])


def _outside(config: Config) -> list[Sheet]:
    """A sheet with the measured experiments that no table shows. Its columns are the metrics that all of them have."""
    tabled = {name for table in config.tables.values() for name in table.experiments()}
    rows: dict[str, list[Row]] = defaultdict(list)  # by the title of the dataset
    sections: list[Section] = []
    for name, experiment in config.experiments.items():
        summary = None if name in tabled else read_summary(config, name)
        if summary:
            for protocol in experiment.recipe.evaluation.protocols:
                title = f"{name}, {protocol}"
                rows[experiment.dataset.title].append(
                    Row(title=title, experiment=name, protocol=protocol, key=protocol)
                )
                sections.append(summary[protocol])
    metrics = [metric for metric in measured_metrics() if all(metric.name in section for section in sections)]
    columns = [Column(title=metric.title, metric=metric.name, mark=False, significant=3) for metric in metrics]
    if not rows or not columns:
        return []
    table = TableEntry(
        title="Other experiments",
        label=OUTSIDE,
        caption="Measured, and in no table.",
        head=("Experiment",),
        columns=tuple(columns),
        groups=tuple(Group(title=title, rows=tuple(of_dataset)) for title, of_dataset in rows.items()),
        mixed_protocols=True,
    )
    return [build(config, OUTSIDE, table)]


def _pictured(config: Config, drawings: Sequence[Drawing]) -> set[str]:
    """The experiments whose images a figure shows."""
    names: set[str] = set()
    for drawing in drawings:
        if drawing.source and drawing.of_images:
            names |= set(config.figures[drawing.name].experiments)
    return names


def _grids(runs: Sequence[RunStatus], shown: set[str]) -> Iterator[Grid]:
    """One grid for each experiment: from the seed that has done the most steps."""
    furthest: dict[str, RunStatus] = {}
    for run in runs:
        rival = furthest.get(run.experiment)
        if run.log and run.experiment not in shown and (rival is None or run.step > rival.step):
            furthest[run.experiment] = run
    for run in furthest.values():
        assert run.log is not None
        for grid in sorted(run.log.parent.glob("grid_*.png"))[-1:]:
            source, size = _inlined(grid, GRID_WIDTH)
            yield Grid(run, int(grid.stem.removeprefix("grid_")), grid, source, size)


def _measured(sheets: Sequence[Sheet]) -> tuple[int, int]:
    """The number of measured cells, and of cells that can be measured."""
    states = [cell.state for sheet in sheets for cell in sheet.cells]
    measured = sum(state in OURS for state in states)
    return measured, measured + states.count("missing")


class _Stories:
    """The stories; cells of the same origin share one."""

    def __init__(self, config: Config, sheets: Sequence[Sheet]) -> None:
        self.chains = Chains(config)
        self.all: dict[str, Story] = {}
        for sheet in sheets:
            for cell in sheet.cells:
                name = self.name(sheet, cell)
                if name not in self.all:
                    self.all[name] = self._story(name, sheet, cell)

    def name(self, sheet: Sheet, cell: Cell) -> str:
        part = cell.part
        if part.published:
            return f"{cell.state}-{part.published}"
        if not cell.measurable:
            return f"mean-{sheet.name}-{cell.row}-{cell.column}"
        state = "chain" if cell.value is not None else cell.state
        source = part.experiment or cell.row
        kind = "latency" if is_cost(part.metric) else part.protocol
        metric = f"-{part.metric}" if cell.uncomputed else ""
        return f"{state}-{source}-{kind}{metric}"

    def _story(self, name: str, sheet: Sheet, cell: Cell) -> Story:
        state, _, subject = name.partition("-")
        title = subject.replace("-", ", ") + (", not reported" if state == "unreported" else "")
        story = Story(name, title, self.chains.origin(sheet, cell))
        if cell.value is None or not cell.measurable:
            return story
        try:
            return replace(story, links=tuple(self.chains.of(cell.part)))
        except UserError as error:
            return replace(story, text=str(error), broken=True)


def _log(config: Config, run: RunStatus) -> str:
    """The end of the training's output, or of its log of numbers."""
    printed = Train().job(config, experiment=run.experiment, seed=run.seed).log
    for path in (printed, run.log):
        text = path.read_text("utf-8", errors="replace").strip() if path and path.exists() else ""
        if text:
            return "\n".join(text.splitlines()[-LOG_LINES:])
    return ""


def _drawing(config: Config, chains: Chains, name: str) -> Drawing:
    figure = config.figures[name]
    job = Figure().job(config, figure=name)
    path = job.outputs["png"]
    source, size = _inlined(path) if path.exists() else (None, (0, 0))
    return Drawing(
        name=name,
        title=figure.title,
        caption=figure.caption,
        source=source,
        size=size,
        command=making(job),
        changed=source is not None and chains.changed(job),
        of_images=figure.kind in MOSAICS,
    )


def _inlined(path: Path, width: int = IMAGE_WIDTH) -> tuple[str, tuple[int, int]]:
    """A picture as a data: address, small enough for a page."""
    with reading(path, back(path)), Image.open(path, formats=["PNG"]) as opened:
        image = opened.convert("RGB")
    if image.width > width:
        height = round(image.height * width / image.width)
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    elif times := SMALL // image.width:
        image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    content = _webp(image, lossless=True)
    if len(content) > LOSSLESS:
        content = _webp(image, quality=80)
    return address("image/webp", content), image.size


def _webp(image: Image.Image, **options: int) -> bytes:
    file = io.BytesIO()
    image.save(file, "WEBP", **options)
    return file.getvalue()


def _curves(config: Config, runs: Sequence[RunStatus]) -> Iterator[tuple[str, dict[str, str]]]:
    """The curves of the trainings of each recipe and dataset, by their names."""
    logs: dict[str, list[Rows]] = defaultdict(list)
    for run in runs:
        curve = Train().path(config, "curve", experiment=run.experiment, seed=run.seed)
        if rows := read_curve(curve, run.log):
            logs[run.experiment].append(rows)
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, experiment in config.experiments.items():
        if name in logs:
            groups[experiment.dataset_name, experiment.recipe.model_dump_json()].append(name)
    for names in groups.values():
        steps = config.experiment(names[0]).steps()
        if drawn := panels({name: logs[name] for name in names}, steps):
            yield ", ".join(names), drawn
