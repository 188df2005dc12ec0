"""Run fuzzers in turn in a separate process, and count the results."""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from fuzz import FUZZERS, discover
from fuzz.worker import READY

TESTS = Path(__file__).parents[1]
STARTING, PATIENCE = 300.0, 60.0  # seconds that a worker has to start, and for a case


@dataclass
class Count:
    tried: int = 0
    failures: dict[int, str] = field(default_factory=dict)  # case number -> reason


class Worker:
    """Runs one case at a time in a process; a new process replaces one that ended."""

    def __init__(self, patience: float = PATIENCE) -> None:
        self.patience = patience
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, name: str, number: int) -> str:
        """Why the case failed; nothing if it was handled."""
        if self.process is None:
            self._start()
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(f"{name} {number}\n".encode())
        self.process.stdin.flush()
        answer = self._answer(self.patience)
        return str(json.loads(answer)) if answer.startswith('"') else answer

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def _start(self) -> None:
        path = os.pathsep.join([str(TESTS), str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        answer = self._answer(STARTING)
        if answer != READY:
            raise RuntimeError(f"no worker can be started: {answer}")

    def _answer(self, seconds: float) -> str:
        """A line from the worker, or the way in which the worker ended."""
        assert self.process is not None and self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            self.close()
            return f"hangs: no end after {seconds:g} s"
        if line := self.process.stdout.readline():
            return line.decode().strip()
        code = self.process.wait()
        self.close()
        return f"the process ended ({signal.Signals(-code).name if code < 0 else f'exit code {code}'})"


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
    end, number = time.monotonic() + (seconds or 0), 0
    while number < cases if cases is not None else time.monotonic() < end:
        yield number
        number += 1


def table(counts: dict[str, Count]) -> str:
    """A line for each fuzzer, then a line for each failure, with the command that repeats it."""
    lines = [f"{'fuzzer':<20} {'tried':>7} {'handled':>8} {'failed':>7}"]
    for name, count in counts.items():
        failed = len(count.failures)
        lines.append(f"{name:<20} {count.tried:>7} {count.tried - failed:>8} {failed:>7}")
    for name, count in counts.items():
        lines += [
            f"python -m tests.fuzz --case {name}:{number}   {each[:300]}" for number, each in count.failures.items()
        ]
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
