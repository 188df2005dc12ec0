"""`rtm lineage`: which files are stale and why, and which are no longer true. The tests of tracing test its cells."""

import os
from pathlib import Path

import pytest
from support.command import Answer, rtm
from support.fake_results import write_outputs

from rtm.core.files import write_json
from rtm.core.readers import read_json
from rtm.stages.base import Job

DIGITS = "dataset/digits"


def lineage(*words: str) -> Answer:
    return rtm("lineage", *words, cwd=Path.cwd())


def refusal(*words: str) -> str:
    answer = lineage(*words)
    assert answer.returncode == 1
    assert answer.stderr.startswith("rtm: ")
    return answer.stderr.removeprefix("rtm: ").strip()


@pytest.fixture
def trained(job: Job) -> Job:
    write_outputs(job)
    return job


def test_what_is_stale_is_listed_in_the_order_in_which_it_would_run(job: Job) -> None:
    assert lineage("why", job.id).stdout == f"{job.id}: it was never made\n"
    first = next(before for before in job.upstream() if before.id == DIGITS)
    first.receipt.unlink()
    stale = lineage("why", job.id).stdout.splitlines()
    assert stale[0] == f"{DIGITS}: it was never made"
    assert stale[-1].startswith(f"{job.id}: it was never made; ")
    write_outputs(first)
    write_outputs(job)
    assert lineage("why", job.id, str(job.first)).stdout == f"{job.id}: fresh\n"  # each job once


def test_only_what_is_fresh_is_verified(trained: Job) -> None:
    answer = lineage("verify", trained.id)
    assert (answer.returncode, answer.stdout) == (0, "")
    trained.first.write_text("other weights", "utf-8")
    assert f"{trained.first} is not the recorded one" in refusal("verify", trained.id)


def test_a_file_tells_what_it_was_made_from(trained: Job) -> None:
    lines = lineage(str(trained.first)).stdout.splitlines()
    receipt = read_json(trained.receipt)
    assert lines[0] == f"{trained.id}: fresh"
    assert f"  fingerprint  {receipt['fingerprint']}" in lines
    assert [line.split()[1] for line in lines if line.startswith("  from ")] == list(receipt["parts"]["inputs"])


def test_every_untrue_receipt_is_named_at_once(trained: Job) -> None:
    receipts = [path for path in Path().rglob("*.json") if "lineage" in path.parts]
    assert lineage("check").stdout == f"{len(receipts)} receipts, all true\n"
    trained.first.write_text("other weights", "utf-8")
    write_json(Path("lineage/train/nobody/seed0.json"), {})
    message = refusal("check")
    assert f"{trained.id}: {trained.first} is not the recorded one" in message
    assert "lineage/train/nobody/seed0.json: no job of params/ writes this receipt" in message


def test_a_change_that_leaves_size_and_times_is_found_by_its_bytes(trained: Job) -> None:
    weights = trained.first
    assert lineage("verify", trained.id).returncode == 0
    before = weights.stat()
    with open(weights, "r+", encoding="utf-8") as file:
        file.write("X")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert f"{weights} is not the recorded one" in refusal("check")


def test_nothing_is_accepted_where_nothing_is_stale(trained: Job) -> None:
    assert lineage("accept", trained.id, "--reason", "a refactoring").stdout == "Nothing was stale.\n"
    assert "Say why the results stay the same" in refusal("accept", trained.id)


@pytest.mark.usefixtures("job")
def test_an_unknown_trial_is_answered_with_those_that_are() -> None:
    Path("try/cats").mkdir(parents=True)
    Path("try/cats/params.yaml").touch()
    message = refusal("dvc", "try/dogs")
    assert "try/dogs" in message
    assert "choose one of all, try/cats" in message
    assert not Path("dvc.yaml").exists()


@pytest.mark.usefixtures("job")
def test_a_target_is_needed() -> None:
    assert refusal("verify") == "Name a file or a job, e.g. `rtm lineage why reports/tab_cifar10.tex`."
