"""reports/index.html: one page with all results so far, which needs only a browser."""

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from rtm.config import Config
from rtm.config.reports import COST_METRICS, Column, Group, Row, Table
from rtm.core.errors import UserError
from rtm.core.files import back, reading, write_text
from rtm.core.layout import Layout
from rtm.page.panels import HEIGHT, WIDTH, Panel, Rows, panels, read_curve
from rtm.pipeline.graph import FIGURES_OF_IMAGES
from rtm.reports.cells import TITLES, Cell, Line, Sheet, build, format_number, read_summary
from rtm.reports.chain import Chains, Link
from rtm.reports.commands import drawing
from rtm.reports.mathematics import Piece, pieces, plain
from rtm.reports.notes import notes, stands_in
from rtm.reports.result import results
from rtm.reports.status import RunStatus, duration
from rtm.reports.tables import ARROWS, label_spans

IMAGE_WIDTH, GRID_WIDTH = 1400, 700  # pixels: twice the width on the page
SMALL = 400  # pixels; a smaller picture is enlarged, so that its pixels stay sharp
LOSSLESS = 300_000  # bytes; larger pictures are compressed with invisible losses
LOG_LINES = 15
FEW = 12  # a state with at most this many runs is shown open
STATES = ("failed", "changed", "running", "waiting", "done")  # in the order of the page
OUTSIDE = "outside"  # the name of the sheet of experiments that no table shows


@dataclass(frozen=True)
class Run:
    """A training with the end of its output."""

    status: RunStatus
    log: str

    @property
    def percent(self) -> float:
        return 100 * self.status.step / self.status.total

    @property
    def where(self) -> str:
        job = self.status.job and f"job {self.status.job}"
        return ", ".join(part for part in (self.status.host, job) if part)


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


@dataclass(frozen=True)
class Grid:
    """The newest samples of a training that no figure shows yet."""

    run: RunStatus
    step: int
    path: Path
    source: str
    size: tuple[int, int]


@dataclass(frozen=True)
class Curve:
    name: str
    panels: list[Panel]


def write_page(config: Config, layout: Layout, runs: Sequence[RunStatus], refresh: int | None = None) -> Path:
    """Write the page; gaps show the command that fills them. A browser loads it again every `refresh` seconds."""
    sheets = [build(config, layout, name) for name in config.tables]
    outside = _outside(config, layout)
    stories = _Stories(config, layout, [*sheets, *outside])
    found = {sheet.name: results(config, layout, sheet) for sheet in sheets}
    drawings = [_drawing(config, layout, stories.chains, name) for name in config.figures]
    pictures = [each for each in drawings if each.source and config.figures[each.name].kind in FIGURES_OF_IMAGES]
    shown = {name for each in pictures for name in config.figures[each.name].experiments}
    by_state = {state: [Run(run, _log(layout, run)) for run in runs if run.state == state] for state in STATES}
    page = environment().get_template("page.html.j2").render(
        scale=config.scale_name,
        refresh=refresh,
        runs=by_state,
        few=FEW,
        gpu_hours=sum(run.gpu_hours for run in runs),
        sheets=sheets,
        blank=[sheet for sheet in sheets if all(cell.value is None for cell in sheet.cells)],
        outside=outside,
        results=found,
        result=next((each for few in found.values() for each in few), None),
        notes={sheet.name: notes(config, layout, sheet) for sheet in (*sheets, *outside)},
        spans={sheet.name: label_spans(sheet) for sheet in (*sheets, *outside)},
        compared=[] if stands_in(config) else [sheet for sheet in sheets if compared_lines(sheet)],
        story=stories.name,
        stories=stories.all,
        changed={name for name in config.tables if stories.chains.changed("table", name)},
        pictures=pictures,
        grids=list(_grids(runs, shown)),
        plots=[each for each in drawings if each.source and each not in pictures],
        undrawn=[each for each in drawings if not each.source],
        curves=_curves(config, layout, runs),
        measured=_measured(sheets),
    )  # fmt: skip
    write_text(layout.page(), page)
    return layout.page()


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
    env.globals |= {"compared_columns": compared_columns, "zip": zip}
    env.globals |= {"reported": reported, "width": WIDTH, "height": HEIGHT}
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
    columns = zip(sheet.table.columns, *(line.cells for line in sheet.lines), strict=True)
    return [column for column, *cells in columns if any(cell.paper is not None for cell in cells)]


def difference(cell: Cell, column: Column, table: Table) -> Difference | None:
    """Our number minus the paper's, with the decimals that the table shows."""
    if cell.value is None or cell.paper is None:
        return None
    off = cell.value - cell.paper
    text = format_number(abs(off), column, table)
    same = not any(digit in text for digit in "123456789")
    if same:
        return Difference("= paper", "", "same")
    sign = "+" if off > 0 else "−"
    percent = f"{sign}{abs(off / cell.paper):.1%}" if cell.paper else ""
    verdict = "better" if (off > 0) == (cell.part.better == "higher") else "worse"
    return Difference(sign + text, percent, verdict if cell.part.better else "")


def reported(cell: Cell, column: Column, sheet: Sheet) -> str:
    """The paper's number with the decimals of most numbers in its column, or with more if it has more."""
    assert cell.paper is not None
    if cell.part.paper is None or column.significant:  # a mean has no published decimals
        return format_number(cell.paper, column, sheet.table)
    beside = [_decimals(other.paper) for other in sheet.cells if other.column == column.id and other.part.paper]
    usual = max(beside, key=lambda decimals: (beside.count(decimals), decimals))
    return f"{cell.paper:,.{max(usual, _decimals(cell.paper))}f}"


def _decimals(number: float | None) -> int:
    return 0 if number is None else len(f"{number:.12g}".partition(".")[2])


def _outside(config: Config, layout: Layout) -> list[Sheet]:
    """A sheet with the measured experiments that no table shows. Its columns are the metrics that all of them have."""
    tabled = {name for table in config.tables.values() for name in table.experiments()}
    read = {name: read_summary(config, layout, name) for name in config.experiments if name not in tabled}
    found = [
        (config.experiment(name), protocol, summary[protocol])
        for name, summary in read.items()
        if summary
        for protocol in config.experiment(name).recipe.evaluation.protocols
    ]
    common = [metric for metric in TITLES if all(metric in section for _, _, section in found)]
    columns = tuple(
        Column(title=TITLES[metric], metric=metric, mark=False, significant=3)
        for metric in common
        if metric not in COST_METRICS
    )
    groups = tuple(
        Group(
            title=title,
            rows=tuple(
                Row(title=f"{each.name}, {protocol}", experiment=each.name, protocol=protocol, key=protocol)
                for each, protocol, _ in found
                if each.dataset.title == title
            ),
        )
        for title in dict.fromkeys(each.dataset.title for each, _, _ in found)
    )
    if not groups or not columns:
        return []
    table = Table(
        title="Other experiments",
        label=OUTSIDE,
        caption="Measured, and in no table.",
        head=("Experiment",),
        columns=columns,
        groups=groups,
        mixed_protocols=True,
    )
    return [build(config, layout, OUTSIDE, table)]


def _grids(runs: Sequence[RunStatus], shown: set[str]) -> Iterator[Grid]:
    """One grid for each experiment: from the seed that has done the most steps."""
    going = [run for run in runs if run.log and run.experiment not in shown]
    for name in dict.fromkeys(run.experiment for run in going):
        run = max((each for each in going if each.experiment == name), key=lambda each: each.step)
        assert run.log is not None
        if drawn := sorted(run.log.parent.glob("grid_*.png")):
            source, size = _inlined(drawn[-1], GRID_WIDTH)
            yield Grid(run, int(drawn[-1].stem.removeprefix("grid_")), drawn[-1], source, size)


def _measured(sheets: Sequence[Sheet]) -> tuple[int, int]:
    """The number of measured cells, and of cells that can be measured."""
    ours = [cell for sheet in sheets for cell in sheet.cells if cell.state in ("measured", "evaluated", "missing")]
    return sum(cell.state != "missing" for cell in ours), len(ours)


class _Stories:
    """The stories; cells of the same origin share one."""

    def __init__(self, config: Config, layout: Layout, sheets: Sequence[Sheet]) -> None:
        self.chains = Chains(config, layout)
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
        if named := part.experiment or part.foreign:
            kind = "latency" if str(part.section).startswith("latency") else part.protocol
            metric = f"-{part.metric}" if cell.uncomputed(self.chains.layout) else ""
            return f"{cell.state if cell.value is None else 'chain'}-{named}-{kind}{metric}"
        return f"mean-{sheet.name}-{cell.row}-{cell.column}"

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


def _log(layout: Layout, run: RunStatus) -> str:
    """The end of the training's output, or of its log of numbers."""
    printed = layout.log("train", f"{run.experiment}/seed{run.seed}")
    for path in (printed, run.log):
        if path is not None and path.exists() and (text := path.read_text(errors="replace").strip()):
            return "\n".join(text.splitlines()[-LOG_LINES:])
    return ""


def _drawing(config: Config, layout: Layout, chains: Chains, name: str) -> Drawing:
    figure, path = config.figures[name], layout.figure(name, ".png")
    source, size = _inlined(path) if path.exists() else (None, (0, 0))
    changed = source is not None and chains.changed("figure", name)
    return Drawing(name, figure.title, figure.caption, source, size, drawing(config, layout, name, figure), changed)


def _inlined(path: Path, width: int = IMAGE_WIDTH) -> tuple[str, tuple[int, int]]:
    """A picture as a data: address, small enough for a page."""
    with reading(path, back(path)), Image.open(path, formats=["PNG"]) as opened:
        image = opened.convert("RGB")
    if image.width > width:
        image = image.resize((width, round(image.height * width / image.width)), Image.Resampling.LANCZOS)
    elif times := SMALL // image.width:
        image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    exact, small = io.BytesIO(), io.BytesIO()
    image.save(exact, "WEBP", lossless=True)
    if exact.tell() > LOSSLESS:
        image.save(small, "WEBP", quality=80)
    chosen = small if small.tell() else exact
    return f"data:image/webp;base64,{base64.b64encode(chosen.getvalue()).decode()}", image.size


def _curves(config: Config, layout: Layout, runs: Sequence[RunStatus]) -> list[Curve]:
    """Mappers of one recipe and dataset have the same axes."""
    rows: dict[str, list[Rows]] = {name: [] for name in config.experiments}
    for run in runs:
        rows[run.experiment].append(read_curve(layout.curve(run.experiment, run.seed), run.log))
    found = []
    for experiment in config.experiments.values():
        same = (experiment.recipe, experiment.dataset_name)
        rivals = [each for each in config.experiments.values() if (each.recipe, each.dataset_name) == same]
        drawn = panels(rows[experiment.name], experiment.steps(), [each for one in rivals for each in rows[one.name]])
        if drawn:
            found.append(Curve(experiment.name, drawn))
    return found
