"""The notes below a table: the meaning of marks, the origin of values, the gaps and how to fill them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from rtm.config import Config
from rtm.config.catalogue import is_cost
from rtm.core.readers import read_json
from rtm.lineage import environment
from rtm.lineage.receipts import read_receipt
from rtm.reports.cells import Cell, Sheet
from rtm.reports.comparison import differences
from rtm.reports.converged import convergence
from rtm.reports.mathematics import plain
from rtm.reports.summary import evaluating, sources
from rtm.stages.latency import Latency
from rtm.stages.train import Train

SCOPES = {"column": "of each column", "row": "of each row", "group": "of each column within its group"}
FEW = 3  # a note names at most this many experiments


def notes(sheet: Sheet) -> Iterator[str]:
    yield from _marks(sheet)
    yield from _seeds(sheet)
    yield from _sampling(sheet)
    yield from _conditions(sheet)
    yield from _timings(sheet)
    yield from differences(sheet)
    yield from convergence(sheet.config, sheet.experiments)
    yield from _environments(sheet)
    yield from _gaps(sheet)


def stands_in(config: Config) -> bool:
    """Whether the scale replaces the datasets, so that its numbers cannot be compared with others."""
    return "datasets" in config.scale.overrides


def not_computed(cells: Iterable[Cell]) -> str:
    """The reason why cells of a measured experiment are missing, with the titles that the reader sees."""
    titles = [plain(cell.heading.title) if cell.heading.metric else cell.title for cell in cells]
    names = ", ".join(dict.fromkeys(titles))
    return f"{names} could not be computed on the measuring machine; `rtm doctor` says what is needed."


def _marks(sheet: Sheet) -> Iterator[str]:
    marks = {cell.mark for cell in sheet.cells}
    states = {cell.state for cell in sheet.cells}
    if "best" in marks:
        second = "; underlined: second best" if "second" in marks else ""
        available = ", among the available values" if "missing" in states else ""
        yield f"Bold: best {SCOPES[sheet.table.best]}{second}{available}."
    if "published" in states:
        yield "Grey: published by others, not measured here."
    if "evaluated" in states:
        yield "‡: measured here on images that others generated."
    if any(line.dagger for line in sheet.lines):
        yield "†: quoted from a publication, not evaluated by the paper's authors."


def _seeds(sheet: Sheet) -> Iterator[str]:
    names = [cell.part.experiment for cell in sheet.measured if cell.part.experiment]
    numbers = [len(sheet.config.experiment(name).seeds) for name in names]
    fewest = min(numbers, default=0)
    most = max(numbers, default=0)
    if most > 1:
        seeds = f"{most}" if fewest == most else f"{fewest} to {most}"
        yield f"Mean ± standard deviation over {seeds} seeds."


def _sampling(sheet: Sheet) -> Iterator[str]:
    """How far other samples of the same model would move each column."""
    columns: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    for cell in sheet.measured:
        if cell.sampling is not None:
            columns[cell.column, cell.title].append(cell)
    ranges = []
    for (_, title), cells in columns.items():
        widths = [cell.sampling for cell in cells if cell.sampling is not None]
        narrowest = cells[0].write(min(widths))
        widest = cells[0].write(max(widths))
        ends = dict.fromkeys([narrowest, widest])
        ranges.append(f"{title} ± {' to '.join(ends)}")
    if ranges:
        yield f"With other samples of the same model (95 %): {', '.join(dict.fromkeys(ranges))}."


def _conditions(sheet: Sheet) -> Iterator[str]:
    """How the numbers were measured, from their files."""
    config = sheet.config
    samples: dict[str, set[int]] = defaultdict(set)  # by protocol
    floors: dict[str, str] = {}
    settings: dict[str, None] = {}
    disturbed: dict[str, str] = {}  # by experiment
    read = cache(read_json)
    for cell in sheet.measured:
        for path in sources(config, cell.part):
            file = read(path, dict[str, Any])
            if not is_cost(cell.part.metric):
                samples[str(cell.part.protocol)].add(file["samples"])
            if cell.part.metric == "fid":
                floors |= _floor(config, cell, file)
            if cell.part.metric == "time_ms":
                settings[f"{file['device']}, batch {file['batch']}"] = None
                disturbed |= _disturbance(file)
    for protocol, numbers in samples.items():
        shown = " or ".join(f"{number:,}" for number in sorted(numbers))
        yield f"Protocol {protocol}, {shown} samples: {config.params.protocols[protocol].title}."
    if floors:
        scores = ", ".join(floors.values())
        yield f"FID of real images against other real images: {scores}."
    if settings:
        yield f"Time per image: {'; '.join(settings)}."
    if disturbed:
        yield f"Measured on a busy machine, so their time per image is too long: {', '.join(disturbed.values())}."
    if config.scale_name != "paper":
        replaced = ": small stand-ins for data and models; titles and captions are those of the paper scale"
        yield f"Scale: {config.scale_name}{replaced if stands_in(config) else ''}."


def _disturbance(file: dict[str, Any]) -> dict[str, str]:
    """A measurement of time that other work on the machine disturbed, by experiment."""
    if not file.get("disturbed"):
        return {}
    facts = [f"load {file['load']:.1f} for each core"] if "load" in file else []
    if quartiles := file.get("quartiles_ms", {}).get("native"):
        low, high = quartiles
        facts.append(f"quartiles {low:.3g} to {high:.3g} ms")
    name = file["experiment"]
    return {name: f"{name} ({', '.join(facts)})" if facts else name}


def _floor(config: Config, cell: Cell, file: dict[str, Any]) -> dict[str, str]:
    """The score of real images against real images, by dataset."""
    metrics = file["metrics"]
    floor = metrics.get("native", metrics).get("fid_floor")
    if floor is None or "floor" not in file:
        return {}
    if cell.part.experiment:
        dataset = config.experiment(cell.part.experiment).dataset_name
    else:
        dataset = file["reference"]["name"]
    first, second = file["floor"]
    return {dataset: f"{dataset} {floor:,.1f} ({first:,} against {second:,} images)"}


def _timings(sheet: Sheet) -> Iterator[str]:
    """Where and when times were measured, if not in one go: they depend on the machine and on its other work."""
    timed = [cell.part.experiment for cell in sheet.measured if cell.part.metric == "time_ms"]
    places: dict[str, list[str]] = defaultdict(list)
    for name in dict.fromkeys(timed):
        receipt = Latency().job(sheet.config, experiment=name).receipt if name else None
        if receipt and receipt.exists():
            made = read_receipt(receipt)["made"]
            day = made["time"][:10] if "time" in made else "an unknown day"
            places[f"{made.get('host', 'a machine')} on {day}"].append(str(name))
    if len(places) > 1:
        groups = "; ".join(f"{place} ({', '.join(names)})" for place, names in places.items())
        yield f"Times per image were measured apart, so compare them with care: {groups}."


def _environments(sheet: Sheet) -> Iterator[str]:
    """Differences in versions or GPUs between the trainings of the rows."""
    environments: dict[str, dict[str, str]] = {}
    for name in sheet.experiments:
        seeds = sheet.config.experiment(name).seeds
        for seed in seeds:
            receipt = Train().job(sheet.config, experiment=name, seed=seed).receipt
            if receipt.exists():
                made = read_receipt(receipt)["made"]
                training = name if len(seeds) == 1 else f"{name} seed {seed}"
                environments[training] = made.get("environment", {})
    yield from environment.differences(environments)


def _gaps(sheet: Sheet) -> Iterator[str]:
    names = sheet.gaps
    if names:
        some = ", ".join(names[:FEW])
        others = f" and {len(names) - FEW} more" if len(names) > FEW else ""
        yield f"∗: not measured yet ({some}{others}); `{sheet.command}` measures it."
    files = {cell.part.measured: cell.part for cell in sheet.unmeasured}
    for file, part in files.items():
        if file:
            yield f"∗: {file} is not here; `{evaluating(part)}` makes it."
    uncomputed = [cell for cell in sheet.cells if cell.uncomputed]
    if uncomputed:
        yield f"∗: {not_computed(uncomputed)}"
