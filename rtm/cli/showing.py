"""The verbs that show: an experiment's values, the states of trainings, this machine."""

import shutil
import time
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.table import Table

from rtm.cli.making import experiment_of
from rtm.config import load
from rtm.config.show import resolved
from rtm.pipeline.amounts import duration, short, space
from rtm.pipeline.states import RunState, states
from rtm.pipeline.status import RunStatus, statuses
from rtm.training.folder import only_one

STYLES = {"running": "bold", "failed": "red", "changed": "red", "done": "green", "waiting": ""}
INTERVAL = 5  # seconds between two pictures of --watch
KINDS = """\
States in runs/ (--runs):
being trained     a process holds its lock
unfinished        the next `rtm train` or snakemake resumes it
finished          its weights are recorded; nothing needs it
not recorded      it has ended, but its weights are missing or not recorded; they will be written from it again
orphaned          no training of params/ has these values any more; delete it"""


def show(arguments: Namespace) -> None:
    """Print an experiment with every value, and where each value comes from."""
    config, name = experiment_of(arguments.scale, arguments.experiment)
    rows = resolved(config, name)
    longest_key = max(len(key) for key, _, _ in rows)
    longest_value = min(30, max(len(value) for _, value, _ in rows))
    for key, value, origin in rows:
        print(f"{key:<{longest_key}}  {value:<{longest_value}}  {origin}")


def add_show(parser: ArgumentParser) -> None:
    parser.add_argument("experiment", help="the name of an experiment in params/, or of a variant")


def status(arguments: Namespace) -> None:
    """Show every training: state, step, speed, time left, GPU-hours, job and loss."""
    if arguments.runs or arguments.clean:
        _show_states(arguments.clean)
        return
    console = Console()
    if not arguments.watch:
        console.print(_table(statuses(load(arguments.scale))))
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:  # running trainings come first, because a small screen cuts off the end of the table
            runs = statuses(load(arguments.scale))
            runs.sort(key=lambda run: (list(STYLES).index(run.state), -run.step))
            live.update(_table(runs), refresh=True)
            time.sleep(INTERVAL)


def add_status(parser: ArgumentParser) -> None:
    parser.epilog = KINDS
    parser.add_argument("--watch", action="store_true", help="refresh every few seconds")
    parser.add_argument("--runs", action="store_true", help="list the states of trainings in runs/ of all scales")
    parser.add_argument("--clean", action="store_true", help="remove the states that nothing needs")


def _show_states(clean: bool) -> None:
    """List the states of trainings, or remove those that nothing needs."""
    runs = sorted(states(), key=lambda run: (run.kind, run.folder))
    finished = [run for run in runs if run.kind == "finished"]
    if clean:
        for run in finished:
            with only_one(run.folder):
                shutil.rmtree(run.folder)
            print(f"removed {_line(run)}")
        print(f"{len(finished)} states removed, {_size(finished)} are free now")
        return
    for run in runs:
        print(_line(run))
    removed = f"`rtm status --clean` removes {len(finished)} finished ones, {_size(finished)}"
    print(f"{len(runs)} states, {_size(runs)}; {removed}")


def _size(runs: Sequence[RunState]) -> str:
    return space(sum(run.size for run in runs))


def _line(run: RunState) -> str:
    seed = "" if run.seed is None else f"seed {run.seed}"
    step = f"step {short(run.step)}"
    return f"{run.kind:<14} {run.folder!s:<56} {seed:<8} {step:<11} {duration(run.age):>6} {space(run.size):>8}"


def _table(runs: Sequence[RunStatus]) -> Table:
    counts: Counter[str] = Counter(run.state for run in runs)
    parts = [f"{counts[state]} {state}" for state in STYLES if counts[state]]
    hours = f"{sum(run.gpu_hours for run in runs):,.1f} GPU-hours"
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), title_justify="left", title_style="")
    table.title = ", ".join([*parts, hours])
    table.add_column("Training", overflow="fold")
    table.add_column("State")
    for title in ("Step", "Steps/s", "Left", "GPU-h", "Job", "Loss"):
        table.add_column(title, justify="right", no_wrap=True)
    for run in runs:
        state = f"{run.state} ({run.reason})" if run.reason and run.state == "waiting" else run.state
        table.add_row(f"{run.experiment}/{run.seed}", state, *_numbers(run), style=STYLES[run.state])
    return table


def _numbers(run: RunStatus) -> list[str]:
    loss = run.losses.get("loss")
    return [
        f"{short(run.step)} {100 * run.step / run.total:3.0f}%" if run.step else "",
        f"{run.speed:.3g}" if run.speed else "",
        duration(run.remaining) if run.remaining else "",
        f"{run.gpu_hours:.1f}" if run.gpu_hours else "",
        run.job or "",
        f"{loss:.4g}" if loss is not None else "",
    ]
