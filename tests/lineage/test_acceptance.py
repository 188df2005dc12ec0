"""Accepted pairs of code hashes: a chain of them connects two codes, for the jobs that a line names."""

from pathlib import Path

import pytest

from rtm.core.errors import UserError
from rtm.lineage.acceptance import FILE, Acceptance, Acceptances, append


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pair(old: str, new: str, jobs: str = "desk/train/*") -> Acceptance:
    return Acceptance(jobs, old, new, "reason", "author", "2026-01-01", None)


CHAIN = Acceptances([pair("a", "b"), pair("c", "b"), pair("c", "d"), pair("x", "y"), pair("a", "z", "train/*")])


@pytest.mark.parametrize(
    ("job", "old", "new", "connected"),
    [
        ("desk/train/x/seed0", "a", "a", True),
        ("desk/train/x/seed0", "a", "b", True),
        ("desk/train/x/seed0", "b", "a", True),  # code that was set back
        ("desk/train/x/seed0", "a", "d", True),
        ("desk/train/x/seed0", "a", "x", False),
        ("desk/train/x/seed0", "a", "z", False),  # accepted for the paper's trainings
        ("desk/evaluate/x/seed0", "a", "b", False),
        ("train/x/seed0", "a", "z", True),
        ("train/x/seed0", "a", "b", False),
    ],
)
def test_a_chain_of_pairs_connects_two_codes(job: str, old: str, new: str, connected: bool) -> None:
    assert CHAIN.connect(job, old, new) is connected


def test_a_new_line_comes_last_and_a_known_one_is_not_repeated() -> None:
    append([pair("a", "b"), pair("b", "c")])
    append([pair("b", "c"), pair("c", "d")])
    assert [(each.old, each.new) for each in Acceptances.read()] == [("a", "b"), ("b", "c"), ("c", "d")]
    assert FILE.read_text("utf-8").count("\n") == 3


@pytest.mark.parametrize("text", ["{", "[]", '{"jobs": "*"}', '{"jobs": "*", "other": 1}'])
def test_a_damaged_line_is_named(text: str) -> None:
    append([pair("a", "b")])
    FILE.write_text(f"{FILE.read_text('utf-8')}{text}\n", "utf-8")
    with pytest.raises(UserError, match=r"accepted\.jsonl is damaged .*bring it back with `git checkout"):
        Acceptances.read()
