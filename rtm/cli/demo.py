"""`rtm demo`: run the pipeline on the embedded digits with a live display, then print the tables."""

import time
from pathlib import Path

from rich.console import Console

from rtm.cli.forkserver import running
from rtm.config import load
from rtm.core.layout import Layout
from rtm.pipeline.executing import execute, stale
from rtm.pipeline.graph import jobs
from rtm.reports.cells import build
from rtm.reports.terminal import print_table

LOG = Path("demo/logs/snakemake.log")


def run(cores: int) -> None:
    config = load("demo")
    layout, console, began = config.layout, Console(highlight=False), time.monotonic()
    todo = stale([job for job in jobs(config).values() if job.stage.is_view])
    if todo:
        console.print(f"Demo: {len(todo)} jobs on {cores} cores, from embedded images to LaTeX. Log: {LOG}")
        execute(todo, ["--cores", str(cores), "--", "demo", str(layout.page())], LOG, console, running)
        console.print(f"Done in {(time.monotonic() - began) / 60:.1f} minutes.\n")
    else:
        console.print("There is nothing to do: all of demo/ is up to date with its parameters, code and data.\n")
    for name in config.tables:
        print_table(config, layout, build(config, layout, name), console)
    _print_places(layout, console)


def _print_places(layout: Layout, console: Console) -> None:
    reports = layout.table("x").parent
    console.print(f"LaTeX, CSV and Markdown  {reports}/tab_*")
    console.print(f"figures                  {layout.figure('x').parent}/")
    console.print(f"metrics                  {layout.root}/results/*/metrics.json")
    console.print(f"lineage of every number  {layout.root}/lineage/")
    console.print(f"all of it on one page    {layout.page()}")
