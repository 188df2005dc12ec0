"""`rtm lineage`: which files are stale and why, which are no longer true, and which jobs run. The tests of tracing
test it for cells."""

import os
from pathlib import Path

import pytest
from support.command import Answer, rtm
from support.fake_results import write_outputs

from rtm.cli import lineage as module
from rtm.core.errors import UserError
from rtm.core.files import read_json, write_json
from rtm.lineage.job import Job

FETCH = "fetch/digits"


def lineage(*words: str) -> Answer:
    return rtm("lineage", *words, cwd=Path.cwd())


def refusal(*words: str) -> str:
    answer = lineage(*words)
    assert answer.returncode == 1 and answer.stderr.startswith("rtm: ")
    return answer.stderr.removeprefix("rtm: ").strip()


@pytest.fixture
def trained(job: Job) -> Job:
    write_outputs(job)
    return job


def test_what_is_stale_is_listed_in_the_order_in_which_it_would_run(job: Job) -> None:
    assert lineage("why", job.id).stdout == f"{job.id}: it was never made\n"
    first = next(before for before in job.upstream() if before.id == FETCH)
    first.receipt.unlink()
    stale = lineage("why", job.id).stdout.splitlines()
    assert stale[0] == f"{FETCH}: it was never made" and stale[-1].startswith(f"{job.id}: it was never made; ")
    write_outputs(first)
    write_outputs(job)
    assert lineage("why", job.id, str(job.outputs[0])).stdout == f"{job.id}: fresh\n"  # each job once


def test_only_what_is_fresh_is_verified(trained: Job) -> None:
    answer = lineage("verify", trained.id)
    assert (answer.returncode, answer.stdout) == (0, "")
    trained.outputs[0].write_text("other weights")
    assert f"{trained.outputs[0]} is not the recorded one" in refusal("verify", trained.id)


def test_a_file_tells_what_it_was_made_from(trained: Job) -> None:
    lines = lineage(str(trained.outputs[0])).stdout.splitlines()
    receipt = read_json(trained.receipt)
    assert lines[0] == f"{trained.id}: fresh" and f"  fingerprint  {receipt['fingerprint']}" in lines
    assert [line.split()[1] for line in lines if line.startswith("  from ")] == list(receipt["parts"]["inputs"])


def test_every_untrue_receipt_is_named_at_once(trained: Job) -> None:
    receipts = [path for path in Path().rglob("*.json") if "lineage" in path.parts and path.parent.name != "code"]
    assert lineage("check").stdout == f"{len(receipts)} receipts, all true\n"
    trained.outputs[0].write_text("other weights")
    write_json(Path("lineage/train/nobody/seed0.json"), {})
    said = refusal("check")
    assert f"{trained.id}: {trained.outputs[0]} is not the recorded one" in said
    assert "lineage/train/nobody/seed0.json: no job of params/ writes this receipt" in said


def test_a_change_that_leaves_size_and_times_is_found_by_its_bytes(trained: Job) -> None:
    weights = trained.outputs[0]
    assert lineage("verify", trained.id).returncode == 0
    before = weights.stat()
    with open(weights, "r+") as file:
        file.write("X")
    os.utime(weights, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert f"{weights} is not the recorded one" in refusal("check")


def test_nothing_is_accepted_where_nothing_is_stale(trained: Job) -> None:
    assert lineage("accept", trained.id, "--reason", "a refactoring").stdout == "Nothing was stale.\n"
    assert "Say why the results stay the same" in refusal("accept", trained.id)


def test_an_unknown_trial_is_answered_with_those_that_are(job: Job) -> None:
    Path("try/cats").mkdir(parents=True)
    Path("try/cats/params.yaml").touch()
    said = refusal("dvc", "try/dogs")
    assert "try/dogs" in said and "choose one of all, try/cats" in said and not Path("dvc.yaml").exists()


def test_a_target_is_needed(job: Job) -> None:
    assert refusal("verify") == "Name a file or a job, e.g. `rtm lineage why reports/tab_cifar10.tex`."


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the arguments of the call to Snakemake. This Snakemake makes nothing and fails."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/snakemake").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nexit 1\n')
    (tmp_path / "bin/snakemake").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    return tmp_path / "asked"


def test_what_is_fresh_is_not_run(trained: Job, asked: Path) -> None:
    module.lineage(["run", trained.id])
    assert not asked.exists()


def test_what_snakemake_does_not_make_is_an_error(job: Job, asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=f"Snakemake did not finish {job.id}; its messages are above"):
        module.lineage(["run", job.id])
    assert asked.read_text() == f"--cores all -- {job.outputs[0]}\n"
    monkeypatch.setenv("SNAKEMAKE_PROFILE", "slurm")
    with pytest.raises(UserError):
        module.lineage(["run", job.id])
    assert asked.read_text() == f"-- {job.outputs[0]}\n"  # the profile says where to run
