"""`rtm status`: a table of all trainings in the terminal."""

import time
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rtm.config import load
from rtm.reports.status import RunStatus, duration, short, statuses

STYLES = {"running": "bold", "failed": "red", "changed": "red", "done": "green", "waiting": ""}


def show(scale: str, watch: bool) -> None:
    console = Console()
    if not watch:
        console.print(_table(statuses(load(scale))))
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:  # running trainings come first, because a small screen cuts off the end of the table
            found = sorted(statuses(load(scale)), key=lambda run: (list(STYLES).index(run.state), -run.step))
            live.update(_table(found), refresh=True)
            time.sleep(5)


def _table(found: Sequence[RunStatus]) -> Table:
    counts: Counter[str] = Counter(run.state for run in found)
    parts = [f"{counts[state]} {state}" for state in STYLES if counts[state]]
    hours = f"{sum(run.gpu_hours for run in found):,.1f} GPU-hours"
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="")
    table.title = ", ".join([*parts, hours])
    table.add_column("Training", overflow="fold")
    table.add_column("State")
    for title in ("Step", "Steps/s", "Left", "GPU-h", "Job", "Loss"):
        table.add_column(title, justify="right", no_wrap=True)
    for run in found:
        loss = run.losses.get("loss")
        name = f"{run.experiment}/{run.seed}"
        numbers = [
            f"{short(run.step)} {100 * run.step / run.total:3.0f}%" if run.step else "",
            f"{run.speed:.3g}" if run.speed else "",
            duration(run.remaining) if run.remaining else "",
            f"{run.gpu_hours:.1f}" if run.gpu_hours else "",
            run.job or "",
            f"{loss:.4g}" if loss is not None else "",
        ]
        state = f"{run.state} ({run.reason})" if run.reason and run.state == "waiting" else run.state
        table.add_row(name, state, *numbers, style=STYLES[run.state])
    return table
