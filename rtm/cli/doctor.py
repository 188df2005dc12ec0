"""`rtm doctor`: what works on this machine, and how to get the rest."""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape

from rtm.config import load

if TYPE_CHECKING:
    from rtm.plan.machine import Finding

MARKS = {True: "[green]yes [/]", False: "[yellow]no  [/]", None: "[yellow]part[/]"}


def doctor(arguments: Namespace) -> None:
    """Show what works on this machine and how to get the rest; --gpu tests the GPUs and a training on them."""
    config = load(arguments.scale)
    if arguments.gpu is None:
        from rtm.plan.machine import examine

        show(examine(config))
    else:
        from rtm.plan.gpus import examine_gpus

        show(examine_gpus(config, arguments.gpu))


def add_options(parser: ArgumentParser) -> None:
    text = "try the GPUs, and ten steps of it"
    parser.add_argument("--gpu", nargs="?", const="", metavar="EXPERIMENT", help=text)


def show(findings: Iterable["Finding"]) -> None:
    console = Console(highlight=False)
    for finding in findings:
        console.print(f"{MARKS[finding.good]} {finding.subject:<11} {escape(finding.advice)}", soft_wrap=True)
