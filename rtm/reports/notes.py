"""The notes below a table: the meaning of marks, the origin of values, the gaps and how to fill them."""

from collections.abc import Iterable, Iterator
from typing import Any

from rtm.config import Config
from rtm.config.reports import COST_METRICS
from rtm.core.files import read_json
from rtm.core.layout import Layout
from rtm.lineage import environment
from rtm.lineage.format import read_receipt
from rtm.reports.cells import TITLES, Cell, Sheet, format_number, sources
from rtm.reports.commands import command
from rtm.reports.converged import convergence
from rtm.reports.mathematics import plain
from rtm.reports.result import differences

SCOPES = {"column": "of each column", "row": "of each row", "group": "of each column within its group"}


def notes(config: Config, layout: Layout, sheet: Sheet) -> list[str]:
    """Sentences in plain text; `...` is code, and ∗, † and ‡ are the marks of the table."""
    found = [*_marks(sheet), *_origins(config, layout, sheet), *differences(config, layout, sheet)]
    trained = convergence(config, layout, _experiments(sheet))
    return [*found, *trained, *_environments(config, layout, sheet), *_gaps(config, layout, sheet)]


def stands_in(config: Config) -> bool:
    """Whether the scale replaces the datasets, so that its numbers cannot be compared with others."""
    return "datasets" in config.scale.overrides


def measuring(config: Config, layout: Layout, sheet: Sheet) -> str:
    """The command that measures the missing cells."""
    return command(config, layout.table(sheet.name), sheet.gaps(layout))


def not_computed(sheet: Sheet, cells: Iterable[Cell]) -> str:
    """The reason why cells of a measured experiment are missing, with the titles that the reader sees."""
    columns = {column.id: column for column in sheet.table.columns}
    named = ((columns[cell.column], cell.part.metric) for cell in cells)
    titles = dict.fromkeys(
        plain(column.title) if column.metric else TITLES[metric] for column, metric in named if metric
    )
    return f"{', '.join(titles)} could not be computed on the measuring machine; `rtm doctor` says what is needed."


def _marks(sheet: Sheet) -> Iterator[str]:
    marks = {cell.mark for cell in sheet.cells}
    if "best" in marks:
        second = "; underlined: second best" if "second" in marks else ""
        gaps = any(cell.state == "missing" for cell in sheet.cells)
        shown = ", among the available values" if gaps else ""
        yield f"Bold: best {SCOPES[sheet.table.best]}{second}{shown}."
    if any(cell.state == "published" for cell in sheet.cells):
        yield "Grey: published by others, not measured here."
    if any(cell.state == "evaluated" for cell in sheet.cells):
        yield "‡: measured here on images that others generated."
    if any(line.dagger for line in sheet.lines):
        yield "†: quoted from a publication, not evaluated by the paper's authors."


def _origins(config: Config, layout: Layout, sheet: Sheet) -> Iterator[str]:
    measured = [cell for cell in sheet.cells if cell.state in ("measured", "evaluated")]
    seeds = {len(config.experiment(cell.part.experiment).seeds) for cell in measured if cell.part.experiment}
    if seeds and max(seeds) > 1:
        number = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
        yield f"Mean ± standard deviation over {number} seeds."
    yield from _sampling(sheet, measured)
    behind = [cell for cell in measured if cell.measurable]
    for protocol in dict.fromkeys(cell.part.protocol for cell in behind if cell.part.metric not in COST_METRICS):
        files = _files(config, layout, (cell for cell in behind if cell.part.protocol == protocol))
        samples = " or ".join(
            f"{number:,}" for number in sorted({file["samples"] for file in files if "samples" in file})
        )
        yield f"Protocol {protocol}, {samples} samples: {config.params.protocols[str(protocol)].title}."
    yield from _floors(config, layout, [cell for cell in behind if cell.part.metric == "fid"])
    timed = _files(config, layout, (cell for cell in behind if cell.part.metric == "time_ms"))
    if settings := dict.fromkeys(f"{file['device']}, batch {file['batch']}" for file in timed if "device" in file):
        yield f"Time per image: {'; '.join(settings)}."
    if config.scale_name != "paper":
        replaced = ": small stand-ins for data and models; titles and captions are those of the paper scale"
        yield f"Scale: {config.scale_name}{replaced if stands_in(config) else ''}."


def _sampling(sheet: Sheet, cells: Iterable[Cell]) -> Iterator[str]:
    """Sentences about how far other samples of the same model would move each column."""
    columns = {column.id: column for column in sheet.table.columns}
    found: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        if cell.sampling is not None and cell.part.metric:
            found.setdefault((cell.column, TITLES[cell.part.metric]), []).append(cell.sampling)
    moved = []
    for (name, title), widths in found.items():
        shown = dict.fromkeys(format_number(width, columns[name], sheet.table) for width in (min(widths), max(widths)))
        moved.append(f"{title} ± {' to '.join(shown)}")
    if moved:
        yield f"With other samples of the same model (95 %): {', '.join(dict.fromkeys(moved))}."


def _floors(config: Config, layout: Layout, cells: Iterable[Cell]) -> Iterator[str]:
    """Sentences with the score of real images against real images, for each dataset."""
    floors: dict[str, str] = {}
    for cell in cells:
        named = config.params.foreign[cell.part.foreign].dataset if cell.part.foreign else None
        dataset = named or config.experiment(str(cell.part.experiment)).dataset_name
        for file in _files(config, layout, [cell]):
            metrics = file.get("metrics", {})
            floor = metrics.get("native", metrics).get("fid_floor")
            if floor is not None and "floor" in file:
                floors[dataset] = f"{dataset} {floor:,.1f} ({file['floor'][0]:,} against {file['floor'][1]:,} images)"
    if floors:
        yield f"FID of real images against other real images: {', '.join(floors.values())}."


def _environments(config: Config, layout: Layout, sheet: Sheet) -> Iterator[str]:
    """Differences in versions or GPUs between the trainings of the rows."""
    found: dict[str, dict[str, str]] = {}
    for name in _experiments(sheet):
        seeds = config.experiment(name).seeds
        for seed in seeds:
            receipt = layout.receipt("train", f"{name}/seed{seed}")
            if receipt.exists():
                each = name if len(seeds) == 1 else f"{name} seed {seed}"
                found[each] = read_receipt(receipt)["made"].get("environment", {})
    yield from environment.differences(found)


def _experiments(sheet: Sheet) -> list[str]:
    return list(dict.fromkeys(cell.part.experiment for cell in sheet.cells if cell.part.experiment and cell.measurable))


def _files(config: Config, layout: Layout, cells: Iterable[Cell]) -> list[dict[str, Any]]:
    """The files behind measured cells, each once. They have the conditions of the measurement."""
    paths = dict.fromkeys(path for cell in cells for path in sources(config, layout, cell.part))
    return [read_json(path, dict[str, Any]) for path in paths]


def _gaps(config: Config, layout: Layout, sheet: Sheet) -> Iterator[str]:
    gaps = sheet.gaps(layout)
    absent = [name for name, path in gaps.items() if not path.exists()]
    if absent:
        some = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
        yield f"∗: not measured yet ({some}); `{measuring(config, layout, sheet)}` measures it."
    if uncomputed := [cell for cell in sheet.cells if cell.uncomputed(layout)]:
        yield f"∗: {not_computed(sheet, uncomputed)}"
