"""The store with the real tools: no training runs if its result exists somewhere."""

import json
import shutil
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from support.standin import Repository

pytestmark = [pytest.mark.slow(seconds=5), pytest.mark.usefixtures("warm_tools")]
NOTHING: list[str] = []
TRAINED = "train/cifar10_imle_rtm/seed0"
WEIGHTS = "checkpoints/cifar10_imle_rtm/seed0.safetensors"
TARGET = "results/cifar10_imle_rtm/metrics.json"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository where everything is made and nothing is in DVC."""
    repository = Repository.create(tmp_path_factory.mktemp("rtm") / "finished")
    repository.run("rtm", "everything")
    repository.commit("everything")
    return repository


@pytest.fixture
def repository(finished: Repository, request: pytest.FixtureRequest) -> Repository:
    """A copy of the finished repository, in a folder with its own remote."""
    return finished.copy(finished.folder.with_name(request.node.name) / "here")


def deepen(entries: Any) -> None:
    entries["cifar10_imle_rtm"]["mapper"] = "rtm_16_2"


def set_back(entries: Any) -> None:
    entries["cifar10_imle_rtm"]["mapper"] = "rtm_16_1"


def rename(entries: Any) -> None:
    entries["renamed"] = entries.pop("cifar10_imle_rtm")


def trained(repository: Repository) -> list[str]:
    return [job for job in repository.ran() if "train/" in job]


def forget(repository: Repository) -> None:
    for folder in ("runs", "checkpoints"):
        shutil.rmtree(repository.folder / folder, ignore_errors=True)


def ids(repository: Repository) -> list[str]:
    return [line.split()[0] for line in repository.run("rtm", "store").splitlines()[:-1]]


def receipt(repository: Repository, job: str) -> Any:
    return json.loads((repository.folder / f"lineage/{job}.json").read_text())


def edit_code(repository: Repository) -> None:
    mappers = repository.folder / "rtm/models/mappers.py"
    mappers.write_text(mappers.read_text().replace("return 1", "return 1 + 0"))


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_a_renamed_experiment_is_not_trained(repository: Repository, moved: bool, stored: bool) -> None:
    here, bytes_before = repository.folder, (repository.folder / WEIGHTS).read_bytes()
    if not stored:  # as results that are older than the store
        shutil.rmtree(here / ".dvc/cache")
    if moved:
        for kind in ("checkpoints", "results", "lineage/train"):
            shutil.move(here / kind / "cifar10_imle_rtm", here / kind / "renamed")
    repository.change("experiments", rename)
    repository.change("tables", lambda tables: tables["tab_cifar10"]["groups"][0]["rows"].pop(1))
    target = "results/renamed/metrics.json"
    dry = repository.run("snakemake", "-n", "--", target)
    assert "1 result would come from the store" in dry and "\nrule train:" not in dry
    assert moved or not (here / "checkpoints/renamed").exists()
    assert "train/renamed/seed0 comes from the store, made as train/" in repository.snakemake(target)
    assert trained(repository) == NOTHING
    assert (here / "checkpoints/renamed/seed0.safetensors").read_bytes() == bytes_before
    assert repository.planned(target) == NOTHING
    signed = receipt(repository, "train/renamed/seed0")
    assert set(signed["from"]) == {"entry", "job"} and "checkpoints/renamed/seed0.safetensors" in signed["outputs"]


def test_a_parameter_set_back_brings_its_result_back(repository: Repository) -> None:
    weights, made = repository.folder / WEIGHTS, receipt(repository, TRAINED)
    before = weights.read_bytes()
    repository.change("experiments", deepen)
    repository.snakemake(TARGET)
    assert trained(repository) == [TRAINED] and weights.read_bytes() != before
    repository.change("experiments", set_back)
    forget(repository)
    assert "1 result would come from the store" in repository.run("snakemake", "-n", "--", TARGET)
    assert not weights.exists()
    repository.snakemake(TARGET)
    assert trained(repository) == NOTHING and weights.read_bytes() == before
    signed = receipt(repository, TRAINED)
    assert signed["made"] == made["made"] and signed["from"]["job"] == TRAINED
    repository.change("experiments", deepen)  # the replaced result is kept too
    train = ("rtm", "train", "cifar10_imle_rtm", "--seed", "0", "--scale", "paper")
    assert "comes from the store" in repository.run(*train)
    assert repository.ran() == NOTHING


def test_absent_weights_of_a_right_receipt_come_back(repository: Repository) -> None:
    before = (repository.folder / WEIGHTS).read_bytes()
    signed = receipt(repository, TRAINED)
    forget(repository)
    assert repository.planned("all") == NOTHING  # no job needs the weights
    assert not (repository.folder / WEIGHTS).exists()
    repository.snakemake(WEIGHTS)
    assert repository.ran() == NOTHING and (repository.folder / WEIGHTS).read_bytes() == before
    assert receipt(repository, TRAINED) == signed


def test_a_second_clone_and_a_branch_find_it_in_the_remote(repository: Repository) -> None:
    repository.run("git", "checkout", "-q", "-b", "deeper")
    repository.change("experiments", deepen)
    repository.snakemake(TARGET)
    assert trained(repository) == [TRAINED]
    deeper = (repository.folder / WEIGHTS).read_bytes()
    assert "results pushed" in repository.run("rtm", "store", "push")
    assert "0 results pushed" in repository.run("rtm", "store", "push")
    clone = repository.clone(repository.folder.with_name("clone"))
    clone.change("experiments", deepen)  # the same idea, on another branch of another clone
    clone.run("rtm", "lineage", "dvc")
    assert "local, remote" not in clone.run("rtm", "store")
    output = clone.snakemake(WEIGHTS)
    assert f"{TRAINED} comes from the store" in output and clone.ran() == NOTHING
    assert (clone.folder / WEIGHTS).read_bytes() == deeper
    repository.run("git", "stash", "-q")
    repository.run("git", "checkout", "-q", "main")
    repository.change("experiments", deepen)
    forget(repository)
    repository.snakemake(WEIGHTS)
    assert repository.ran() == NOTHING and (repository.folder / WEIGHTS).read_bytes() == deeper


def test_changed_code_is_not_served_until_it_is_accepted(repository: Repository) -> None:
    forget(repository)
    (repository.folder / f"lineage/{TRAINED}.json").unlink()
    edit_code(repository)
    assert "from the store" not in repository.run("snakemake", "-n", "--", WEIGHTS)
    repository.run("rtm", "lineage", "accept", "train/celebahq_imle_rtm/seed0", "--reason", "the same sum")
    assert "1 result would come from the store" in repository.run("snakemake", "-n", "--", WEIGHTS)
    repository.snakemake(WEIGHTS)
    assert repository.ran() == NOTHING and repository.planned(WEIGHTS) == NOTHING


def test_a_damaged_object_is_refused_and_the_job_runs(repository: Repository) -> None:
    made = receipt(repository, TRAINED)["outputs"][WEIGHTS]
    forget(repository)
    (repository.folder / f"lineage/{TRAINED}.json").unlink()
    damaged = repository.folder / ".dvc/cache/files/md5" / made["md5"][:2] / made["md5"][2:]
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[::-1])
    output = repository.snakemake(WEIGHTS)
    assert "is damaged" in output and trained(repository) == [TRAINED]
    assert receipt(repository, TRAINED)["outputs"][WEIGHTS] == made and "from" not in receipt(repository, TRAINED)
    forget(repository)
    (repository.folder / f"lineage/{TRAINED}.json").unlink()
    repository.snakemake(WEIGHTS)  # the new result replaced the damaged one
    assert repository.ran() == NOTHING


@pytest.fixture
def closed() -> Iterator[int]:
    """A port where nobody answers."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_a_remote_that_cannot_be_reached_is_one_sentence(repository: Repository, closed: int) -> None:
    repository.run("dvc", "remote", "add", "--local", "-d", "far", f"http://127.0.0.1:{closed}/store")
    repository.change("experiments", deepen)
    output = repository.snakemake(WEIGHTS)
    assert output.count("The DVC remote is not asked for results") == 1 and trained(repository) == [TRAINED]


def test_gc_keeps_what_a_branch_needs(repository: Repository) -> None:
    repository.run("git", "checkout", "-q", "-b", "deeper")
    repository.change("experiments", deepen)
    repository.snakemake(WEIGHTS)
    repository.commit("deeper")
    repository.run("git", "checkout", "-q", "main")
    repository.change("experiments", lambda entries: entries["cifar10_imle_rtm"].update(mapper="rtm_8_2"))
    repository.snakemake(WEIGHTS)
    repository.run("git", "checkout", "-q", "main", "--", ".")
    kept = ids(repository)
    assert f"1 of {len(kept)} results" in repository.run("rtm", "store", "gc") and ids(repository) == kept
    assert f"1 of {len(kept)} results removed" in repository.run("rtm", "store", "gc", "--yes")
    assert set(ids(repository)) < set(kept) and len(ids(repository)) == len(kept) - 1
    for mapper in (deepen, set_back):  # both results are needed and still there
        repository.ran()
        forget(repository)
        repository.change("experiments", mapper)
        repository.snakemake(WEIGHTS)
        assert repository.ran() == NOTHING
    assert "would be removed" in repository.run("rtm", "store", "gc", "--force", TRAINED)
    assert TRAINED in repository.run("rtm", "store")
    repository.run("rtm", "store", "gc", "--yes", "--force", TRAINED)
    assert TRAINED not in repository.run("rtm", "store")
