"""`rtm demo`: run the pipeline on the embedded digits with a live display, then print the tables."""

import os
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from rich.console import Console

from rtm.config import load
from rtm.core.errors import UserError
from rtm.pipeline.executing import execute, stale
from rtm.reports.sheets import build
from rtm.reports.terminal import print_table
from rtm.stages.graph import jobs
from rtm.stages.report import Report

LOG = Path("demo/logs/snakemake.log")
PLACES = """\
LaTeX, CSV and Markdown  demo/reports/tab_*
figures                  demo/reports/figures/
metrics                  demo/results/*/metrics.json
lineage of every number  demo/lineage/
all of it on one page    demo/reports/index.html"""


def demo(arguments: Namespace) -> None:
    """Run the whole pipeline on the embedded digits, with a live display, and print the tables."""
    if arguments.cores < 1:
        raise UserError(f"--cores is {arguments.cores}; give at least 1.")
    config = load("demo")
    console = Console(highlight=False)
    began = time.monotonic()
    waiting = stale([job for job in jobs(config).values() if job.stage.shows])
    if waiting:
        console.print(
            f"Demo: {len(waiting)} jobs on {arguments.cores} cores, from embedded images to LaTeX. Log: {LOG}"
        )
        page = str(Report().job(config).first)
        execute(waiting, ["--cores", str(arguments.cores), "--", "demo", page], LOG, console)
        console.print(f"Done in {(time.monotonic() - began) / 60:.1f} minutes.\n")
    else:
        console.print("There is nothing to do: all of demo/ is up to date with its parameters, code and data.\n")
    for name in config.tables:
        print_table(build(config, name), console)
    console.print(PLACES)


def add_demo(parser: ArgumentParser) -> None:
    parser.add_argument("--cores", type=int, default=os.cpu_count(), help="number of cores to use (default: all)")
