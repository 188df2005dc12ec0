"""A new stage is one new file: the graph, Snakemake, DVC, `rtm make` and the receipts know it from its class."""

import json
from pathlib import Path

import pytest
import yaml
from support.standin import Repository, write

pytestmark = pytest.mark.slow(seconds=15)
STAGE = '''
"""Counts of weights."""

from collections.abc import Iterable
from typing import Any

from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.train import Train


class Count(Stage):
    """Count the bytes of a checkpoint."""

    parts = ("experiment", "seed")
    files = {"count": "results/{experiment}/count/seed{seed}.json"}
    reads = {"train": "checkpoint"}

    def needs(self, job: Job) -> Iterable[Job]:
        yield Train().job(job.config, **job.names)

    def values(self, job: Job) -> Values:
        return {"unit": 8}

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.core.files import write_json

        write_json(job.first, {"bits": 8 * job.input(Train).first.stat().st_size})
'''
JOB = "demo/count/digits_rtm/seed0"
FILE = "demo/results/digits_rtm/count/seed0.json"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The demo is made and recorded; then there is one more file."""
    repository = Repository.create(tmp_path_factory.mktemp("stage") / "here")
    repository.run("rtm everything")
    repository.commit("everything")
    write(repository.folder / "rtm/stages/count.py", STAGE)
    return repository


def test_only_its_own_jobs_must_run(repository: Repository) -> None:
    assert repository.planned("demo") == []
    assert repository.planned(FILE) == ["count"]
    assert "it was never made" in repository.run("rtm", "lineage", "why", JOB)


def test_rtm_make_lists_it_and_makes_it_with_a_receipt(repository: Repository) -> None:
    words = " ".join(repository.run("rtm make --help").split())
    assert "count/experiment/seed Count the bytes of a checkpoint." in words
    repository.run("rtm", "make", JOB)
    assert repository.ran() == [JOB]
    receipt = json.loads((repository.folder / "demo/lineage/count/digits_rtm/seed0.json").read_text("utf-8"))
    assert receipt["parts"]["params"] == {"unit": 8}
    assert list(receipt["parts"]["inputs"]) == ["demo/train/digits_rtm/seed0"]
    assert list(receipt["outputs"]) == [FILE]
    assert repository.planned(FILE) == []


def test_snakemake_has_its_rule(repository: Repository) -> None:
    other = FILE.replace("digits_rtm", "digits_mlp")
    repository.snakemake(other)
    assert repository.ran() == [JOB.replace("digits_rtm", "digits_mlp")]
    rule = (repository.folder / "workflow/rules/count.smk").read_text("utf-8")
    assert "# Count the bytes of a checkpoint.\nrule count:" in rule
    assert 'train="{root}checkpoints/{experiment}/seed{seed}.safetensors"' in rule
    assert "misspelt" not in rule
    assert "you may mean" not in repository.run("snakemake", "-n", "--", other)


def test_dvc_records_it_with_its_experiment(repository: Repository) -> None:
    repository.run("rtm lineage dvc all")
    stage = yaml.safe_load((repository.folder / "dvc.yaml").read_text("utf-8"))["stages"]["digits_rtm"]
    assert FILE in stage["cmd"]
    outs = [path for out in stage["outs"] for path in out]
    assert {str(Path(FILE).parent), "demo/lineage/count/digits_rtm"} <= set(outs)
    repository.run("dvc repro digits_rtm")
    assert "up to date" in repository.run("dvc status digits_rtm")
    repository.run("rm", FILE)
    repository.run("dvc checkout -q digits_rtm")
    assert (repository.folder / FILE).exists()


def test_its_code_counts_for_its_own_results_alone(repository: Repository) -> None:
    write(repository.folder / "rtm/stages/count.py", STAGE.replace('"bits": 8 *', '"bits": 8.0 *'))
    assert repository.planned("demo") == []
    assert repository.planned(FILE) == ["count"]
    assert "code" in repository.run("rtm", "lineage", "why", JOB)
