"""`rtm plan`: what trainings would cost on a GPU, before anything is submitted."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from rtm.config import Config, load
from rtm.config.parameters import pick
from rtm.plan.estimate import Estimate, times
from rtm.plan.planner import Planner
from rtm.plan.tally import GIB

GROUPS = {"decoding": "De-\ncode", "features": "Fea-\nture", "search": "Se-\narch", "step": "Step"}


def plan(arguments: Namespace) -> None:
    """Predict what trainings cost on a GPU (memory, and hours by part), beside the hours that they ask for."""
    config = load(arguments.scale)
    name = arguments.name
    planner = Planner(config, arguments.gpu, arguments.gpus)
    console = Console(highlight=False)
    plans = planner.plans(_names(config, planner, name))
    if name in planner.experiments:
        (plan,) = plans
        console.print(_parts(plan))
        console.print(*_facts(plan), sep="\n")
        warnings = [f"{name} {warning}" for warning in plan.warnings]
    else:
        console.print(_overview(plans))
        warnings = _warnings(plans)
    for sentence in [*planner.problems, *warnings]:
        console.print(sentence, style="yellow")


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="an experiment or a table; by default all experiments")
    parser.add_argument("--gpu", help="a name in params/devices.yaml (default: the recipe's gpu_model)")
    parser.add_argument("--gpus", type=int, help="how many of them (default: the recipe's)")


def _names(config: Config, planner: Planner, name: str | None) -> Iterable[str]:
    if name is None:
        return config.experiments
    if name in planner.experiments:
        return [name]
    table = pick({**dict.fromkeys(planner.experiments), **config.tables}, name, "experiment or table")
    assert table is not None
    return dict.fromkeys(part.experiment for part in table.cells if part.experiment)


def _warnings(plans: Sequence[Estimate]) -> list[str]:
    """Which trainings do not fit the GPU, and how many ask for far more or fewer hours."""
    sentences = [f"{plan.experiment.name} {plan.warnings[0]}" for plan in plans if not plan.fits]
    if misjudged := sum(plan.is_misjudged for plan in plans):
        sentences.append(f"{misjudged} of {len(plans)} ask for more than twice or less than half of the planned hours.")
    return sentences


def _table(title: str, columns: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="", title=title)
    first, *others = columns
    table.add_column(first, overflow="fold")
    for column in others:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _overview(plans: Sequence[Estimate]) -> Table:
    """A line for each training, and the sum."""
    devices = ", ".join(dict.fromkeys(plan.device.title for plan in plans))
    columns = ("Experiment", "\nGPUs", "Peak\nGiB", "Step\nms", "Round\ns", *GROUPS.values(), "\nHours", "\nAsked")
    table = _table(f"{devices}: hours of one training, where they go, and what it asks for", columns)
    for plan in plans:
        table.add_row(
            plan.experiment.name,
            str(plan.world),
            f"{plan.peak / GIB:.1f}",
            f"{1e3 * plan.step_seconds:.1f}",
            f"{plan.round_seconds:.1f}" if plan.round_seconds else "",
            *_shares(plan),
            f"{plan.hours:.1f}",
            f"{plan.experiment.recipe.resources.hours:g}",
        )
    planned = sum(plan.gpu_hours for plan in plans)
    asked = sum(plan.asked_gpu_hours for plan in plans)
    table.add_row("GPU-hours of all", *[""] * 8, f"{planned:,.0f}", f"{asked:,.0f}", style="bold")
    return table


def _shares(plan: Estimate) -> Iterable[str]:
    """The share of each kind of work in the hours."""
    for group in GROUPS:
        hours = plan.hours_of.get(group)
        yield "" if hours is None else f"{100 * hours / plan.hours:.0f}%"


def _parts(plan: Estimate) -> Table:
    """The work of each kind of step and each part of a round, and its hours in a run."""
    title = f"{plan.experiment.name}, one of {plan.world} x {plan.device.title}"
    table = _table(title, ("", "Times", "TFLOP", "GB", "Launches", "ms", "Hours"))
    for part, count in times(plan.experiment, plan.cost).items():
        tally = plan.cost.parts[part]
        seconds = plan.seconds(part)
        table.add_row(
            part,
            f"{count:,.0f}",
            f"{tally.flops / 1e12:,.2f}",
            f"{tally.bytes / 1e9:,.1f}",
            f"{tally.launches:,}",
            f"{1e3 * seconds:,.2f}",
            f"{seconds * count / 3600:,.2f}",
        )
    table.add_row("all", *[""] * 5, f"{plan.hours:,.1f}", style="bold")
    return table


def _facts(plan: Estimate) -> list[str]:
    asked = plan.experiment.recipe.resources
    uses = ", ".join(f"{name} {size / GIB:.1f}" for name, size in plan.memory.items())
    phase = "step" if plan.peak_part in plan.cost.kinds else "round"
    return [
        f"Peak {plan.peak / GIB:.1f} GiB, in a {phase}: {uses}.",
        f"Planned {plan.world} x {plan.hours:.3g} hours; asked for {asked.gpus} x {asked.hours:g}.",
    ]
