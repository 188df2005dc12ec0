"""Every fuzzer's first cases are handled, and the runner counts the failures."""

from pathlib import Path
from random import Random

import pytest
from fuzz import FUZZERS, discover
from fuzz.damage import damaged
from fuzz.runner import Count, run, table
from fuzz.worker import Worker, case

CASES = 8  # for each fuzzer; `python -m tests.fuzz` tries more


@pytest.mark.slow(seconds=10)
def test_the_first_cases_of_every_fuzzer_are_handled() -> None:
    discover()
    counts = run(FUZZERS, CASES)
    assert counts
    assert all(count.tried == CASES for count in counts.values())
    assert not any(count.failures for count in counts.values()), table(counts)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker whose fuzzers fail in every way, except `sentence`, which is handled."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, time, fuzz\n"
        "def fails(name, act): fuzz.FUZZERS[name] = lambda rng, folder: act()\n"
        "def refuse(text):\n    from rtm.core.errors import UserError\n    raise UserError(text)\n"
        "fails('crash', os.abort)\n"
        "fails('hang', lambda: time.sleep(600))\n"
        "fails('trace', lambda: 1 / 0)\n"
        "fails('lines', lambda: refuse('two\\nlines'))\n"
        "fails('sentence', lambda: refuse('A sentence.'))\n"
        "fails('memory', lambda: bytearray(1 << 40))\n"
        "fuzz.discover = lambda: None\n",
        "utf-8",
    )
    tests = Path(__file__).parent
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{tests}:{tests.parent}")
    return Worker(patience=3)


@pytest.mark.slow(seconds=3)
def test_the_runner_counts_every_kind_of_failure(worker: Worker) -> None:
    try:
        reasons = {name: worker.run(name, 0) for name in ("sentence", "crash", "trace", "hang", "lines", "memory")}
    finally:
        worker.close()
    assert reasons["sentence"] == ""
    assert reasons["crash"] == "the process ended (SIGABRT)"
    assert reasons["trace"].startswith("ZeroDivisionError at ")
    assert reasons["hang"] == "hangs: no end after 3 s"
    assert reasons["lines"].startswith("no message of one line")
    assert reasons["memory"].startswith("MemoryError")


def test_failures_are_printed_with_the_command_that_repeats_them() -> None:
    counts = {"zip-archive": Count(30, {7: "KeyError", 9: "AssertionError at x"}), "image": Count(20)}
    shown = table(counts, seed=5).splitlines()
    assert shown[1].split() == ["zip-archive", "30", "28", "2"]
    assert shown[3].split() == ["python", "-m", "tests.fuzz", "--seed", "5", "--case", "zip-archive:7", "KeyError"]
    assert shown[-1] == (
        "Seed 5: 50 cases of 2 kinds; something wrong was accepted in 1 of them, and 1 ended without a sentence."
    )


def test_another_seed_draws_other_cases() -> None:
    drawn = [case("zip-archive", 3, seed).random() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_case_is_the_same_each_time() -> None:
    content = bytes(range(256)) * 4
    once, again = ([damaged(Random(f"x {number}"), content) for number in range(50)] for _ in range(2))
    assert once == again
    assert all(each != content for each in once)
    assert len(set(once)) > 40
