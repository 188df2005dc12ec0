"""Run fuzzers in turn in a separate process, and count the results."""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzz import FUZZERS, discover
from fuzz.worker import Worker

ROW = "{:<20} {:>7} {:>8} {:>7}"


@dataclass
class Count:
    tried: int = 0
    failures: dict[int, str] = field(default_factory=dict)  # case number -> reason


def run(names: Iterable[str], cases: int | None = None, seconds: float | None = None) -> dict[str, Count]:
    """Run this number of cases of each fuzzer, or as many as the time allows. Case numbers always start at 0."""
    counts = {name: Count() for name in names}
    worker = Worker()
    try:
        for number in _numbers(cases, seconds):
            for name, count in counts.items():
                count.tried += 1
                if reason := worker.run(name, number):
                    count.failures[number] = reason
    finally:
        worker.close()
    return counts


def _numbers(cases: int | None, seconds: float | None) -> Iterator[int]:
    if cases is not None:
        yield from range(cases)
        return
    end = time.monotonic() + (seconds or 0)
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1


def table(counts: dict[str, Count]) -> str:
    """A line for each fuzzer, then a line for each failure, with the command that repeats it."""
    lines = [ROW.format("fuzzer", "tried", "handled", "failed")]
    for name, count in counts.items():
        failed = len(count.failures)
        lines.append(ROW.format(name, count.tried, count.tried - failed, failed))
    for name, count in counts.items():
        for number, reason in count.failures.items():
            lines.append(f"python -m tests.fuzz --case {name}:{number}   {reason[:300]}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Bad input in great number.")
    parser.add_argument("--minutes", type=float, default=1, help="for how long (default 1)")
    parser.add_argument("--cases", type=int, help="so many of each fuzzer instead")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these fuzzers")
    parser.add_argument("--case", metavar="NAME:NUMBER", help="one case, here, with its traceback")
    arguments = parser.parse_args()
    discover()
    if arguments.case:
        name, number = arguments.case.split(":")
        folder = Path("fuzz-case")
        folder.mkdir(exist_ok=True)
        FUZZERS[name](Random(f"{name} {number}"), folder)
        return
    counts = run(arguments.only or FUZZERS, arguments.cases, 60 * arguments.minutes)
    print(table(counts))
    sys.exit(any(count.failures for count in counts.values()))
