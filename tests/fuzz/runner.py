"""Run fuzzers in turn in a separate process, and count the results."""

import argparse
import secrets
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fuzz import FUZZERS, discover
from fuzz.worker import Worker, case

ROW = "{:<22} {:>7} {:>8} {:>7}"


@dataclass
class Count:
    tried: int = 0
    failures: dict[int, str] = field(default_factory=dict)  # case number -> reason

    @property
    def silent(self) -> int:
        """The number of cases in which something wrong was accepted."""
        return sum(reason.startswith("AssertionError") for reason in self.failures.values())


def run(
    names: Iterable[str], cases: int | None = None, seconds: float | None = None, seed: int = 0
) -> dict[str, Count]:
    """Run this number of cases of each fuzzer, or as many as the time allows. Case numbers always start at 0."""
    counts = {name: Count() for name in names}
    worker = Worker()
    try:
        for number in _numbers(cases, seconds):
            for name, count in counts.items():
                count.tried += 1
                if reason := worker.run(name, number, seed):
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


def table(counts: dict[str, Count], seed: int = 0) -> str:
    """A line for each fuzzer, then a line for each failure, with the command that repeats it."""
    lines = [ROW.format("fuzzer", "tried", "handled", "failed")]
    for name, count in counts.items():
        failed = len(count.failures)
        lines.append(ROW.format(name, count.tried, count.tried - failed, failed))
    for name, count in counts.items():
        for number, reason in count.failures.items():
            lines.append(f"python -m tests.fuzz --seed {seed} --case {name}:{number}   {reason[:300]}")
    return "\n".join([*lines, figures(counts, seed)])


def figures(counts: dict[str, Count], seed: int) -> str:
    """The sentence for docs/contributing.md."""
    tried = sum(count.tried for count in counts.values())
    silent = sum(count.silent for count in counts.values())
    others = sum(len(count.failures) for count in counts.values()) - silent
    return (
        f"Seed {seed}: {tried:,} cases of {len(counts)} kinds; something wrong was accepted in {silent} of them, and "
        f"{others} ended without a sentence."
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Bad input in great number.")
    parser.add_argument("--minutes", type=float, default=1, help="for how long (default 1)")
    parser.add_argument("--cases", type=int, help="so many of each fuzzer instead")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these fuzzers")
    parser.add_argument("--seed", type=int, help="of an earlier run (default: a new one, which is printed)")
    parser.add_argument("--case", metavar="NAME:NUMBER", help="one case, here, with its traceback")
    arguments = parser.parse_args()
    discover()
    seed = secrets.randbelow(10**6) if arguments.seed is None else arguments.seed
    if arguments.case:
        name, number = arguments.case.split(":")
        folder = Path("fuzz-case")
        folder.mkdir(exist_ok=True)
        FUZZERS[name](case(name, int(number), seed), folder)
        return
    counts = run(arguments.only or FUZZERS, arguments.cases, 60 * arguments.minutes, seed)
    print(table(counts, seed))
    sys.exit(any(count.failures for count in counts.values()))
