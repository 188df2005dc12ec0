"""`rtm plan`: what trainings would cost on a GPU, before anything is submitted."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from rtm.config import Config
from rtm.config.loading import pick
from rtm.plan.estimate import Plan
from rtm.plan.plan import Planner
from rtm.plan.tally import GIB, Tally


def show(config: Config, name: str | None, gpu: str | None, gpus: int | None) -> None:
    """One experiment in detail, those of a table, or all."""
    planner, console = Planner(config, gpu, gpus), Console(highlight=False)
    plans = planner.plans(_names(config, planner, name))
    console.print(_many(plans) if name not in planner.known else _one(plans[0]))
    for plan in plans:
        for warning in plan.warnings:
            console.print(f"{plan.experiment.name} {warning}", style="yellow", soft_wrap=True)


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


def _many(plans: Sequence[Plan]) -> Table:
    table = _blank(f"{plans[0].device.title}; hours of one training, and of all in GPU-hours")
    table.add_column("Experiment", overflow="fold")
    for title in (
        "GPUs",
        "Peak\nGiB",
        "Step\nms",
        "Round\ns",
        "De-\ncode",
        "Fea-\ntures",
        "Se-\narch",
        "Step",
        "Hours",
        "Asked",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    for plan in plans:
        asked = plan.experiment.recipe.resources
        table.add_row(
            plan.experiment.name, str(plan.world), f"{plan.peak / GIB:.1f}", f"{1e3 * plan.step_seconds:.1f}",
            f"{plan.round_seconds:.1f}" if plan.round_seconds else "",
            *(_percent(plan, group) for group in ("decoding", "features", "search", "step")),
            f"{plan.hours:.1f}", f"{asked.hours:g}",
        )  # fmt: skip
    total, asked_total = sum(plan.gpu_hours for plan in plans), sum(map(_asked, plans))
    table.add_row("GPU-hours of all", *[""] * 8, f"{total:,.0f}", f"{asked_total:,.0f}", style="bold")
    return table


def _percent(plan: Plan, group: str) -> str:
    return f"{100 * plan.hours_of[group] / plan.hours:.0f}%" if group in plan.hours_of else ""


def _asked(plan: Plan) -> float:
    asked = plan.experiment.recipe.resources
    return asked.hours * asked.gpus * len(plan.experiment.seeds)


def _one(plan: Plan) -> Table:
    name, each = plan.experiment.name, "each of " if plan.world > 1 else ""
    table = _blank(f"{name} on {each}{plan.world} x {plan.device.title}")
    for title in ("", "Times", "TFLOP", "GB", "Launches", "Waits", "ms", "Hours"):
        table.add_column(title, justify="right" if title else "left", no_wrap=True)
    from rtm.plan.estimate import times

    for part, count in times(plan.experiment, plan.rehearsal).items():
        tally = plan.rehearsal.parts[part]
        ms = 1e3 * plan.seconds(part)
        table.add_row(part, f"{count:,.0f}", *_numbers(tally), f"{ms:,.2f}", f"{ms * count / 3.6e6:,.2f}")
    table.add_row("all", *[""] * 6, f"{plan.hours:,.1f}", style="bold")
    return table


def _numbers(tally: Tally) -> tuple[str, ...]:
    counts = tally.launches, tally.waits.total()
    return f"{tally.flops / 1e12:,.2f}", f"{tally.bytes / 1e9:,.1f}", *(f"{count:,}" for count in counts)
