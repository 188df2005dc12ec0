"""`rtm plan`: what trainings would cost on a GPU, before anything is submitted."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from rtm.config import Config
from rtm.config.loading import pick
from rtm.plan.estimate import Plan, times
from rtm.plan.plan import Planner
from rtm.plan.tally import GIB

GROUPS = {"decoding": "De-\ncode", "features": "Fea-\nture", "search": "Se-\narch", "step": "Step"}


def show(config: Config, name: str | None, gpu: str | None, gpus: int | None) -> None:
    """Print one experiment in detail, or an overview of a table's experiments, or of all."""
    planner, console = Planner(config, gpu, gpus), Console(highlight=False)
    plans = planner.plans(_names(config, planner, name))
    if name in planner.known:
        console.print(_parts(plans[0]))
        console.print(*_facts(plans[0]), sep="\n")
        said = [f"{name} {warning}" for warning in plans[0].warnings]
    else:
        console.print(_overview(plans))
        said = _warnings(plans)
    for sentence in [*planner.problems, *said]:
        console.print(sentence, style="yellow")


def _warnings(plans: Sequence[Plan]) -> list[str]:
    """Warnings about many trainings: which do not fit the GPU, and how many ask for far more or fewer hours."""
    large = [f"{plan.experiment.name} {plan.warnings[0]}" for plan in plans if not plan.fits]
    misjudged = sum(plan.is_misjudged for plan in plans)
    said = f"{misjudged} of {len(plans)} ask for more than twice or less than half of the planned hours."
    return [*large, *([said] if misjudged else [])]


def _names(config: Config, planner: Planner, name: str | None) -> Iterable[str]:
    if name is None or name in planner.known:
        return [name] if name else config.experiments
    table = pick({**dict.fromkeys(planner.known), **config.tables}, name, "experiment or table")
    assert table is not None
    return dict.fromkeys(part.experiment for part in table.cells if part.experiment)


def _blank(title: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="")
    table.title = title
    return table


def _overview(plans: Sequence[Plan]) -> Table:
    """A line for each training, and the sum."""
    devices = ", ".join(dict.fromkeys(plan.device.title for plan in plans))
    table = _blank(f"{devices}: hours of one training, where they go, and what it asks for")
    table.add_column("Experiment", overflow="fold")
    for title in ("\nGPUs", "Peak\nGiB", "Step\nms", "Round\ns", *GROUPS.values(), "\nHours", "\nAsked"):
        table.add_column(title, justify="right", no_wrap=True)
    for plan in plans:
        table.add_row(
            plan.experiment.name,
            str(plan.world),
            f"{plan.peak / GIB:.1f}",
            f"{1e3 * plan.step_seconds:.1f}",
            f"{plan.round_seconds:.1f}" if plan.round_seconds else "",
            *(f"{100 * plan.hours_of[group] / plan.hours:.0f}%" if group in plan.hours_of else "" for group in GROUPS),
            f"{plan.hours:.1f}",
            f"{plan.experiment.recipe.resources.hours:g}",
        )
    planned, asked = sum(plan.gpu_hours for plan in plans), sum(plan.asked_gpu_hours for plan in plans)
    table.add_row("GPU-hours of all", *[""] * 8, f"{planned:,.0f}", f"{asked:,.0f}", style="bold")
    return table


def _parts(plan: Plan) -> Table:
    """A table with the work of each kind of step and each part of a round, and its hours in a run."""
    table = _blank(f"{plan.experiment.name}, one of {plan.world} x {plan.device.title}")
    for title in ("", "Times", "TFLOP", "GB", "Launches", "Waits", "ms", "Hours"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    for part, count in times(plan.experiment, plan.rehearsal).items():
        tally, took = plan.rehearsal.parts[part], plan.seconds(part)
        numbers = f"{tally.flops / 1e12:,.2f}", f"{tally.bytes / 1e9:,.1f}", f"{tally.launches:,}"
        waits = f"{tally.waits.total():,}"
        table.add_row(part, f"{count:,.0f}", *numbers, waits, f"{1e3 * took:,.2f}", f"{took * count / 3600:,.2f}")
    table.add_row("all", *[""] * 6, f"{plan.hours:,.1f}", style="bold")
    return table


def _facts(plan: Plan) -> list[str]:
    asked = plan.experiment.recipe.resources
    held = ", ".join(f"{name} {size / GIB:.1f}" for name, size in plan.memory.items())
    return [
        f"Peak {plan.peak / GIB:.1f} GiB, in a {plan.phase}: {held}.",
        f"Planned {plan.world} x {plan.hours:.3g} hours; asked for {asked.gpus} x {asked.hours:g}.",
    ]
