"""What a reader of a table must know: how values are marked, whose they are, what is missing and how to get it."""

from collections.abc import Iterator

from rtm.config import Config
from rtm.layout import Layout
from rtm.reports.cells import Sheet

SCOPES = {"column": "of each column", "row": "of each row", "group": "of each column within its group"}


def notes(config: Config, layout: Layout, sheet: Sheet) -> list[str]:
    """Sentences in plain text; `...` is code, and ∗ and † are the marks used in the table."""
    return [*_marks(sheet), *_origins(config, sheet), *_gaps(config, layout, sheet)]


def command(config: Config, layout: Layout, sheet: Sheet) -> str:
    """What measures the cells that are missing."""
    experiments = (config.experiments[name] for name in sheet.gaps(layout) if name in config.experiments)
    gpus = any(experiment.recipe.resources.gpus for experiment in experiments)
    return f"snakemake {'--profile slurm' if gpus else '--cores all'} {layout.table(sheet.name)}"


def _marks(sheet: Sheet) -> Iterator[str]:
    marks = {cell.mark for cell in sheet.cells}
    if "best" in marks:
        second = "; underlined: second best" if "second" in marks else ""
        gaps = any(cell.state == "missing" for cell in sheet.cells)
        shown = ", among the values there are" if gaps else ""
        yield f"Bold: best {SCOPES[sheet.table.best]}{second}{shown}."
    if any(cell.state == "published" for cell in sheet.cells):
        yield "Grey: published by others, not measured here."
    if any(cell.state == "evaluated" for cell in sheet.cells):
        yield "‡: measured here on images that others generated."
    if any(line.dagger for line in sheet.lines):
        yield "†: as the method's own publication reports it."


def _origins(config: Config, sheet: Sheet) -> Iterator[str]:
    measured = [cell for cell in sheet.cells if cell.state in ("measured", "evaluated")]
    seeds = {len(config.experiment(cell.part.experiment).seeds) for cell in measured if cell.part.experiment}
    if seeds and max(seeds) > 1:
        number = f"{min(seeds)}" if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
        yield f"Mean ± standard deviation over {number} seeds."
    for protocol in dict.fromkeys(cell.part.protocol for cell in measured if cell.part.protocol):
        yield f"Protocol {protocol}: {config.params.protocols[protocol].title}."
    if config.scale_name != "paper":
        yield f"Scale: {config.scale_name}."


def _gaps(config: Config, layout: Layout, sheet: Sheet) -> Iterator[str]:
    gaps = sheet.gaps(layout)
    absent = [name for name, path in gaps.items() if not path.exists()]
    if absent:
        some = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more" if len(absent) > 3 else "")
        yield f"∗: not measured yet ({some}); `{command(config, layout, sheet)}` measures it."
    present = [name for name in gaps if name not in absent]
    if present:
        missing = (cell.part for cell in sheet.cells if cell.state == "missing")
        metrics = dict.fromkeys(str(part.metric) for part in missing if (part.experiment or part.foreign) in present)
        yield f"∗: {', '.join(metrics)} could not be computed where it was measured; `rtm doctor` says what is needed."
