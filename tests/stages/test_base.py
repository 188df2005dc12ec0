"""A stage and its jobs: names, files, inputs and the order of jobs."""

import json
from pathlib import Path

import pytest
from support import PARAMS

from rtm.config import Config, load
from rtm.core.files import write_json
from rtm.lineage.freshness import Freshness
from rtm.stages import stages
from rtm.stages.base import Job, Stage, upstream
from rtm.stages.dataset import Dataset
from rtm.stages.evaluate import Evaluate
from rtm.stages.graph import every_job, jobs
from rtm.stages.reference import Reference
from rtm.stages.report import Report
from rtm.stages.summary import Summary
from rtm.stages.train import Train


@pytest.fixture(scope="module")
def graph() -> dict[str, Job]:
    return every_job(PARAMS)


@pytest.fixture(scope="module")
def demo() -> Config:
    return load("demo", PARAMS)


def test_the_parts_of_a_job_are_its_name(demo: Config) -> None:
    evaluation = Evaluate().job(demo, experiment="digits_rtm", protocol="digits", seed=1)
    assert evaluation.id == "demo/evaluate/digits_rtm/digits/seed1"
    assert evaluation.receipt == Path("demo/lineage/evaluate/digits_rtm/digits/seed1.json")
    assert evaluation.log == Path("demo/logs/evaluate/digits_rtm/digits/seed1.log")
    assert evaluation.first == Path("demo/results/digits_rtm/digits/seed1.json")
    assert (evaluation.seed, evaluation.experiment.name) == (1, "digits_rtm")
    assert Report().job(demo).id == "demo/report/index"
    assert Reference().job(demo, dataset="digits", protocol="digits").id == "reference/digits/digits"


def test_a_job_is_made_once_and_its_values_are_the_same_again(demo: Config) -> None:
    training = Train().job(demo, experiment="digits_rtm", seed=0)
    assert Train().job(demo, experiment="digits_rtm", seed=0) is training
    assert training.input(Dataset).id == "dataset/digits300"
    assert training.values == training.values


def test_a_path_needs_no_job(demo: Config) -> None:
    path = Summary().path(demo, "metrics", experiment="digits_rtm")
    assert path == Summary().job(demo, experiment="digits_rtm").first == Path("demo/results/digits_rtm/metrics.json")


def test_jobs_of_one_repository_have_names_and_files_of_their_own(graph: dict[str, Job]) -> None:
    every = list(graph.values())
    assert len({job.id for job in every}) == len(every) > 100
    owned = [path for job in every for path in (*job.outputs.values(), job.receipt, job.log)]
    assert len(set(owned)) == len(owned)


def test_the_jobs_before_come_first_and_each_once(graph: dict[str, Job]) -> None:
    for job in graph.values():
        order = list(job.upstream())
        assert order[-1] is job
        assert len({each.id for each in order}) == len(order)
        for place, each in enumerate(order):
            assert {before.id for before in each.inputs} <= {before.id for before in order[:place]}


def test_several_jobs_share_what_they_read(demo: Config) -> None:
    trainings = [Train().job(demo, experiment="digits_rtm", seed=seed) for seed in (0, 1)]
    ids = [job.id for job in upstream(trainings)]
    assert ids.count("dataset/digits300") == 1
    assert ids.index(trainings[0].id) < ids.index(trainings[1].id)


def test_values_are_json_and_costs_are_positive(graph: dict[str, Job]) -> None:
    for job in graph.values():
        json.dumps(job.values)
        assert job.cost.cpus >= 1
        assert job.cost.hours > 0


def test_a_job_reads_the_files_that_its_stage_names(graph: dict[str, Job]) -> None:
    for job in graph.values():
        assert {before.stage.name for before in job.inputs} <= job.stage.reads.keys()
        for before, path in job.reads():
            assert path == before.outputs[job.stage.reads[before.stage.name]]


@pytest.mark.parametrize("stage", stages().values(), ids=stages())
def test_a_stage_says_what_it_makes(stage: Stage) -> None:
    assert stage.__doc__
    assert {*stage.apart, *stage.optional} <= stage.files.keys()
    for name, key in stage.reads.items():
        assert key in stages()[name].files


@pytest.mark.parametrize(("scale", "keeper"), [("paper", "git"), ("desk", "git"), ("demo", "dvc"), ("smoke", "dvc")])
def test_git_or_dvc_keeps_small_results(scale: str, keeper: str) -> None:
    keepers = {job.stage.name: job.keeper for job in jobs(load(scale, PARAMS)).values()}
    assert keepers["evaluate"] == keepers["table"] == keeper
    assert keepers["train"] == keepers["dataset"] == "dvc"
    assert keepers["network"] == keepers["report"] == "nobody"


def test_the_test_split_and_facts_are_no_part_of_what_trainings_depend_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load("paper", PARAMS)
    monkeypatch.chdir(tmp_path)
    dataset = Dataset().job(config, dataset="cifar10")
    training = Train().job(config, experiment="cifar10_imle_rtm", seed=0)
    names = [path.name for path in dataset.outputs.values()]
    assert names == ["images.npy", "labels.npy", "test_images.npy", "test_labels.npy", "meta.json"]

    def fingerprint(changed: str = "") -> str:
        outputs = {str(path): {"md5": "ab"[path.name == changed] * 32, "size": 1} for path in dataset.outputs.values()}
        parts: dict[str, object] = {"params": {}, "code": "", "inputs": {}}
        write_json(dataset.receipt, {"fingerprint": "", "parts": parts, "outputs": outputs, "made": {}})
        return Freshness().fingerprint(training)

    for apart in ("test_images.npy", "test_labels.npy", "meta.json"):
        assert fingerprint(apart) == fingerprint()
    assert fingerprint("images.npy") != fingerprint()
