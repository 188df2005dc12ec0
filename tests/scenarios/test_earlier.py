"""Earlier results with the real tools: no training runs if its result exists somewhere."""

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from support.standin import Repository, write

pytestmark = [pytest.mark.slow(seconds=5), pytest.mark.usefixtures("warm_tools")]
NOTHING: list[str] = []
TRAINED = "train/cifar10_imle_rtm/seed0"
WEIGHTS = "checkpoints/cifar10_imle_rtm/seed0.safetensors"
TARGET = "results/cifar10_imle_rtm/metrics.json"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository where everything is made and nothing is in DVC."""
    repository = Repository.create(tmp_path_factory.mktemp("rtm") / "finished")
    repository.run("rtm everything")
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


def forget(repository: Repository, with_receipt: bool = False) -> None:
    """Remove the weights and the runs of all trainings, and perhaps the receipt of one."""
    repository.remove("runs", "checkpoints", *([f"lineage/{TRAINED}.json"] if with_receipt else []))


def receipt(repository: Repository, job: str = TRAINED) -> Any:
    return json.loads(repository.text(f"lineage/{job}.json"))


def dry_run(repository: Repository, target: str = WEIGHTS) -> str:
    return repository.run("snakemake", "-n", "--", target)


@pytest.mark.parametrize("moved", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_a_renamed_experiment_is_not_trained(repository: Repository, moved: bool, stored: bool) -> None:
    before = repository.text(WEIGHTS)
    if not stored:  # as results that are older than the cache
        repository.remove(".dvc/cache")
    if moved:
        for kind in ("checkpoints", "results", "lineage/train"):
            repository.run("mv", f"{kind}/cifar10_imle_rtm", f"{kind}/renamed")
    repository.change("experiments", rename)
    repository.change("tables", lambda tables: tables["tab_cifar10"]["groups"][0]["rows"].pop(1))
    target = "results/renamed/metrics.json"
    dry = dry_run(repository, target)
    assert "1 result would come from DVC's cache" in dry
    assert "\nrule train:" not in dry
    assert repository.has("checkpoints/renamed") is moved
    assert "train/renamed/seed0 comes from DVC's cache, made" in repository.snakemake(target)
    assert trained(repository) == NOTHING
    assert repository.text("checkpoints/renamed/seed0.safetensors") == before
    assert repository.planned(target) == NOTHING
    assert "checkpoints/renamed/seed0.safetensors" in receipt(repository, "train/renamed/seed0")["outputs"]


def test_a_parameter_set_back_brings_its_result_back(repository: Repository) -> None:
    made = receipt(repository)["made"]
    before = repository.text(WEIGHTS)
    repository.change("experiments", deepen)
    repository.snakemake(TARGET)
    assert trained(repository) == [TRAINED]
    assert repository.text(WEIGHTS) != before
    repository.change("experiments", set_back)
    forget(repository)
    assert "2 results would come from DVC's cache" in dry_run(repository, TARGET)  # git has the metrics
    assert not repository.has(WEIGHTS)
    repository.snakemake(TARGET)
    assert trained(repository) == NOTHING
    assert repository.text(WEIGHTS) == before
    assert receipt(repository)["made"] == made
    repository.change("experiments", deepen)  # the replaced result is kept too
    assert "comes from DVC's cache" in repository.run("rtm train cifar10_imle_rtm")
    assert repository.ran() == NOTHING


def test_absent_weights_of_a_right_receipt_come_back(repository: Repository) -> None:
    before = repository.text(WEIGHTS)
    signed = receipt(repository)
    forget(repository)
    assert repository.planned("all") == NOTHING  # no job needs the weights
    assert not repository.has(WEIGHTS)
    repository.snakemake(WEIGHTS)
    assert repository.ran() == NOTHING
    assert repository.text(WEIGHTS) == before
    assert receipt(repository) == signed


def test_a_second_clone_and_a_branch_find_it_in_the_remote(repository: Repository) -> None:
    repository.run("git checkout -q -b deeper")
    repository.change("experiments", deepen)
    repository.run("rtm lineage dvc")
    repository.run("dvc repro -q tab_cifar10")
    assert trained(repository) == [TRAINED]
    deeper = repository.text(WEIGHTS)
    repository.run("dvc push -q")
    repository.commit("deeper")
    repository.run("git checkout -q main")
    clone = repository.clone(repository.folder.with_name("clone"))
    clone.run("git fetch -q origin deeper")
    clone.change("experiments", deepen)  # the same idea, on another branch of another clone
    assert f"{TRAINED} comes from DVC's cache" in clone.snakemake(WEIGHTS)
    assert clone.ran() == NOTHING
    assert clone.text(WEIGHTS) == deeper
    repository.change("experiments", deepen)
    forget(repository)
    repository.snakemake(WEIGHTS)
    assert repository.ran() == NOTHING
    assert repository.text(WEIGHTS) == deeper


def test_changed_code_is_not_served_until_it_is_accepted(repository: Repository) -> None:
    forget(repository, with_receipt=True)
    repository.append("rtm/models/mappers.py", "\n\nUNUSED = 1\n")
    assert "from DVC's cache" not in dry_run(repository)
    repository.run("rtm lineage accept train/celebahq_imle_rtm/seed0 --reason 'the same sum'")
    assert "1 result would come from DVC's cache" in dry_run(repository)
    repository.snakemake(WEIGHTS)
    assert repository.ran() == NOTHING
    assert repository.planned(WEIGHTS) == NOTHING


def test_a_damaged_object_is_refused_and_the_job_runs(repository: Repository) -> None:
    made = receipt(repository)["outputs"][WEIGHTS]
    md5 = made["md5"]
    damaged = f".dvc/cache/files/md5/{md5[:2]}/{md5[2:]}"
    forget(repository, with_receipt=True)
    write(repository.folder / damaged, repository.text(damaged)[::-1])
    assert "is damaged" in repository.snakemake(WEIGHTS)
    assert trained(repository) == [TRAINED]
    assert receipt(repository)["outputs"][WEIGHTS] == made
    forget(repository, with_receipt=True)
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
    repository.snakemake(WEIGHTS)
    repository.commit("its receipt is in git, its bytes are nowhere")
    repository.change("experiments", set_back)
    repository.snakemake(WEIGHTS)
    repository.remove(".dvc/cache")
    repository.ran()
    repository.change("experiments", deepen)
    output = repository.snakemake(WEIGHTS)
    assert output.count("The DVC remote is not asked for results") == 1
    assert trained(repository) == [TRAINED]
