"""`rtm store`: listing, pushing, pulling, removing, and refusals."""

import shutil
from pathlib import Path

import pytest
from support.command import rtm
from support.fake_results import write_outputs
from support.workspace import git

from rtm.lineage.job import Job
from rtm.pipeline.amounts import space


def store(*words: str) -> list[str]:
    """The lines that `rtm store` prints."""
    answer = rtm("store", *words, cwd=Path.cwd())
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


@pytest.fixture
def trained(job: Job) -> Job:
    write_outputs(job)
    return job


def size_of(job: Job) -> str:
    return space(sum(path.stat().st_size for path in job.outputs))


def test_without_a_store_it_says_how_to_begin(stored: Path) -> None:
    shutil.rmtree(stored / ".dvc")
    answer = rtm("store", cwd=stored)
    assert answer.returncode == 1
    assert answer.stderr == "rtm: There is no store: this is no DVC repository, or RTM_STORE is off. Try `dvc init`.\n"


def test_a_result_is_listed_with_its_place(trained: Job) -> None:
    line, total = store()
    assert trained.id in line and line.endswith("  local") and size_of(trained) in line
    assert f"1 of them local ({size_of(trained)}), 0 in the remote" in total
    shutil.rmtree(".dvc/cache/files")
    assert store()[0].endswith("  local without its bytes")


def test_what_was_pushed_comes_back_from_the_remote(trained: Job) -> None:
    before = [path.read_text() for path in trained.outputs]
    git("init", "-q")
    assert store("push", trained.id)[-1].startswith("1 result") and store()[0].endswith("  local, remote")
    assert store("push")[-1].startswith("0 results pushed (0 B)")
    for path in (*trained.outputs, trained.receipt):
        path.unlink()
    shutil.rmtree(".dvc/cache")
    assert store()[0].endswith("  remote")
    assert store("pull", trained.id) == ["1 result came from the store"]
    assert [path.read_text() for path in trained.outputs] == before and trained.receipt.exists()
    assert store("pull", trained.id) == ["0 results came from the store"]


def test_only_what_nothing_needs_goes_and_only_with_yes(trained: Job) -> None:
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "nothing is recorded")
    (total,) = store("gc", "--yes")
    assert total.startswith("0 of 1 results removed, 0 B ")
    trained.receipt.unlink()
    line, total = store("gc")
    assert trained.id in line and total.startswith(f"1 of 1 results ({size_of(trained)}) ") and "--yes" in total
    assert store("gc", "--yes")[-1].startswith(f"1 of 1 results removed, {size_of(trained)} ")
    assert store() == ["0 results, 0 of them local (0 B), 0 in the remote"]


def test_a_result_that_is_needed_goes_by_its_name_alone(trained: Job) -> None:
    assert trained.id in store("gc", "--force", trained.id)[0] and trained.id in store()[0]
    assert store("gc", "--yes", "--force", trained.id)[-1].startswith("1 of 1 results removed")
    assert store()[0].startswith("0 results, ")
    answer = rtm("store", "gc", "--force", "demo/train/nobody", cwd=Path.cwd())
    assert answer.returncode == 1 and "Nothing makes demo/train/nobody" in answer.stderr


def test_a_store_that_others_share_is_cleaned_by_names_alone(stored: Path) -> None:
    with open(stored / ".dvc/config", "a") as config:
        config.write("[cache]\n    dir = ../../shared\n")
    answer = rtm("store", "gc", "--yes", cwd=stored)
    assert answer.returncode == 1 and "Other clones may need what is in " in answer.stderr
    assert answer.stderr.endswith("; remove by name: rtm store gc --force TARGET.\n")
