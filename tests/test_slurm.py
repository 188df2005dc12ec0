"""The slurm profile on a real SLURM, started for the test."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import cluster, missing
from standin import Repository

STAGES = (
    "train/cifar10_imle_rtm/seed0",
    "evaluate/cifar10_imle_rtm/paper/seed0",
    "latency/cifar10_imle_rtm",
    "summary/cifar10_imle_rtm",
    "table/tab_cifar10",
)


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    if told := missing():
        if os.environ.get("REQUIRE_SLURM"):
            pytest.fail(told)
        pytest.skip(told)
    with cluster() as environment:
        yield environment


def test_a_clone_submits_and_a_stopped_training_goes_on(tmp_path: Path, slurm: dict[str, str]) -> None:
    """`snakemake --profile slurm` after a change: train, sample, measure in jobs of their own, the rest here."""
    finished = Repository.create(tmp_path / "finished")
    finished.run("rtm", "everything")
    finished.commit("everything")
    clone = finished.clone(tmp_path / "clone")
    for folder in ("data", "weights", "features", "checkpoints"):
        shutil.copytree(finished.folder / folder, clone.folder / folder)
    clone.change("experiments", lambda entries: entries["cifar10_imle_rtm"].update(mapper="rtm_16_2"))
    (clone.folder / "stop").touch()
    clone.environment |= {"SLURM_CONF": slurm["SLURM_CONF"]}
    clone.environment["PATH"] = f"{Path(slurm['SLURM_CONF']).parent / 'bin'}:{clone.environment['PATH']}"
    quick = ["--slurm-init-seconds-before-status-checks", "5", "--max-status-checks-per-second", "10"]
    told = clone.run("snakemake", "--profile", "slurm", *quick, "reports/tab_cifar10.tex")
    assert clone.ran() == [
        "evaluate/cifar10_imle_rtm/paper/seed0",
        "latency/cifar10_imle_rtm",
        "sample/cifar10_imle_rtm/seed0",
        "summary/cifar10_imle_rtm",
        "table/tab_cifar10",
        *["train/cifar10_imle_rtm/seed0"] * 2,  # stopped once
    ], told
    receipts = {stage: json.loads((clone.folder / f"lineage/{stage}.json").read_text())["made"] for stage in STAGES}
    assert [stage for stage, made in receipts.items() if "slurm_job" in made] == list(STAGES[:3])
    assert receipts[STAGES[0]]["gpus"] == "0,1,2,3"  # four H100s and their cores, from params/recipes.yaml
    assert "threads: 32" in told
    assert clone.planned("reports/tab_cifar10.tex") == []
