"""The graph of jobs is complete and equal to dvc.yaml; each job has exactly the values that it reads."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT

from rtm.config import load
from rtm.config.experiments import Dataset
from rtm.config.loading import PARAMS
from rtm.core.errors import UserError
from rtm.lineage.fingerprint import present
from rtm.lineage.job import Job
from rtm.pipeline import dvc as dvcfile
from rtm.pipeline.graph import TABLE_SUFFIXES, every_job, jobs


@pytest.fixture(autouse=True)
def in_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="module")
def graph() -> dict[str, Job]:
    return every_job(ROOT / PARAMS)


def changed(tmp_path: Path, section: str, *path: str, to: Any) -> dict[str, Job]:
    """The demo's jobs with one value of params/ changed."""
    for file in (ROOT / PARAMS).glob("*.yaml"):
        content = yaml.safe_load(file.read_text())
        if section in content:
            place = content[section]
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = to
        (tmp_path / file.name).write_text(yaml.safe_dump(content))
    return jobs(load("demo", tmp_path))


def stages_that_differ(tmp_path: Path, section: str, *path: str, to: Any) -> set[str]:
    before, after = jobs(load("demo")), changed(tmp_path, section, *path, to=to)
    return {before[key].stage for key in before if before[key].params != after[key].params}


@pytest.mark.parametrize(
    ("place", "value", "stages"),
    [
        (("recipes", "digits_imle", "training", "lr"), 1.0e-3, {"train"}),
        (("recipes", "digits_imle", "training", "save_every"), 7, set()),
        (("recipes", "digits_imle", "resources", "hours"), 7, set()),
        (("recipes", "digits_imle", "evaluation", "batch"), 7, set()),
        (("recipes", "digits_imle", "evaluation", "latency_batch"), 7, {"latency"}),
        (("mappers", "digits_rtm", "H"), 9, {"train", "sample", "evaluate", "gallery", "latency", "figure"}),
        (("protocols", "digits", "k"), 7, {"evaluate"}),
        (("protocols", "digits", "title"), "Another", {"table", "figure"}),
        (("tables", "tab_digits", "caption"), "Another", {"table", "figure"}),
        (("datasets", "digits", "licence"), "Another", set()),
        (("datasets", "digits", "classes"), 9, {"fetch"}),  # trainings see a change of the images by their hash
    ],
)
def test_a_job_reads_what_it_uses(tmp_path: Path, place: tuple[str, ...], value: Any, stages: set[str]) -> None:
    assert stages_that_differ(tmp_path, *place, to=value) == stages


def test_each_job_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many tables and figures ask for the same jobs, and every command builds the graph."""
    described: list[str] = []
    dump = Dataset.model_dump

    def counted(dataset: Dataset, **given: Any) -> dict[str, Any]:
        described.append(dataset.title)
        return dump(dataset, **given)

    monkeypatch.setattr(Dataset, "model_dump", counted)
    config = load("smoke")
    jobs(config)
    assert len(described) == len(config.params.datasets)


def test_every_output_has_one_job(graph: dict[str, Job]) -> None:
    outputs = [path for job in graph.values() for path in (*job.outputs, job.receipt)]
    assert len(outputs) == len(set(outputs))


def test_inputs_come_first_and_are_in_the_graph(graph: dict[str, Job]) -> None:
    for job in graph.values():
        order = [before.id for before in job.upstream()]
        assert order[-1] == job.id
        assert len(order) == len(set(order))
        for before in job.inputs:
            assert before.id in order
            assert before.id in graph


def test_every_name_that_a_verb_takes_is_a_job() -> None:
    for config in map(load, ("paper", "demo", "desk", "smoke")):
        named = {"inception", "vgg16", "dinov2", "digit_classifier", *config.params.datasets}
        pairs = {f"{dataset}/{protocol}" for dataset in config.params.datasets for protocol in config.params.protocols}
        graph = jobs(config)
        assert {job.name for job in graph.values() if job.stage == "fetch"} == named
        assert {job.name for job in graph.values() if job.stage == "reference"} == pairs


def test_scales_share_data_alone(graph: dict[str, Job]) -> None:
    shared = {job.stage for job in jobs(load("demo")).values() if job.root == ""}
    assert shared == {"fetch", "reference"}
    assert graph["fetch/digits"].scale == "paper"
    assert graph["smoke/fetch/digits"].params != graph["fetch/digits"].params


def test_a_scale_may_not_change_what_it_shares(tmp_path: Path) -> None:
    for file in (ROOT / PARAMS).glob("*.yaml"):
        (tmp_path / file.name).write_text(file.read_text())
    scales = yaml.safe_load((ROOT / PARAMS / "scales.yaml").read_text())
    scales["scales"]["demo"]["overrides"] = {"datasets": {"digits": {"count": 1800}}}
    (tmp_path / "scales.yaml").write_text(yaml.safe_dump(scales, sort_keys=False))
    with pytest.raises(UserError, match="demo changes fetch/digits"):
        every_job(tmp_path)


def test_entries_are_the_code_that_runs(graph: dict[str, Job]) -> None:
    reached = {str(job.stage): set(present().reached(job.entries)) for job in graph.values()}
    trained = [job for job in graph.values() if job.stage == "train"]
    trains = {job.name.split("/")[0]: set(present().reached(job.entries)) for job in trained}
    assert {"rtm.models.mappers", "rtm.training.loop"} <= reached["train"]
    assert "rtm.methods.imle.method" in trains["cifar10_imle_rtm"] - trains["cifar10_stylegan2_rtm"]
    assert "rtm.methods.stylegan2.losses" in trains["cifar10_stylegan2_rtm"] - trains["cifar10_imle_rtm"]
    selecting = {"rtm.metrics.evaluate", "rtm.metrics.fid"}
    assert selecting <= trains["cifar10_stylegan2_rtm"] and not selecting & trains["cifar10_imle_rtm"]
    assert not {"rtm.metrics.prdc", "rtm.training.launch"} & trains["cifar10_stylegan2_rtm"]
    measures = {
        mapper: set(present().reached(graph[f"evaluate/cifar10_imle_{mapper}/paper/seed0"].entries))
        for mapper in ("mlp", "rtm")
    }
    assert "rtm.models.mappers" in measures["rtm"] - measures["mlp"]  # to follow a recursion step by step
    assert "rtm.training.loop" not in reached["sample"]
    assert not any(name.startswith("rtm.methods") for name in reached["sample"] | reached["gallery"])
    assert "rtm/reports/templates/table.tex.j2" in reached["table"]
    for stage in ("summary", "table", "figure"):
        assert all(name.replace("/", ".").startswith("rtm.reports") for name in reached[stage])


def test_jobs_name_their_own_mapper_and_generator(graph: dict[str, Job]) -> None:
    for stage in ("train", "sample"):
        mlp, gan = (graph[f"{stage}/{name}/seed0"].entries for name in ("cifar10_imle_mlp", "cifar10_stylegan2_rtm"))
        assert {"rtm.models.mappers:MLPMapper", "rtm.models.generator:build_generator"} <= set(mlp)
        assert {"rtm.models.mappers:RTM", "rtm.models.stylegan2.generator:build_generator"} <= set(gan)
        assert not set(mlp) & {"rtm.models.mappers:RTM", "rtm.models.stylegan2.generator:build_generator"}


def test_tables_are_written_as_declared(graph: dict[str, Job]) -> None:
    from rtm.reports.tables import SUFFIXES

    assert set(TABLE_SUFFIXES) == set(SUFFIXES)


def test_dvc_yaml_is_up_to_date() -> None:
    dvcfile.check()


def test_nobody_keeps_temporary_files() -> None:
    for name in (".gitignore", ".dvcignore"):
        assert ".*.tmp" in Path(name).read_text().splitlines()


def test_dvc_yaml_declares_what_tables_read(graph: dict[str, Job]) -> None:
    stages = yaml.safe_load(dvcfile.render(dvcfile.Listing(whole=True)))["stages"]
    layout = load("paper").layout
    for name, table in load("paper").tables.items():
        assert {str(layout.summary(experiment)) for experiment in table.experiments()} <= set(stages[name]["deps"])
