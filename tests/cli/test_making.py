"""The verbs that make results. A variant is never mistaken for its experiment, and only what is complete is signed."""

from contextlib import chdir
from pathlib import Path

import pytest
from support import PARAMS, fake_results
from support.command import rtm
from support.smoke_workspace import fetch

from rtm.cli.making import experiment_of
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.core.readers import read_json
from rtm.lineage.freshness import Freshness
from rtm.stages import stages
from rtm.stages.figure import Figure
from rtm.stages.graph import every_job
from rtm.stages.latency import Latency
from rtm.stages.report import Report
from rtm.stages.table import Table
from rtm.stages.train import Train

NAME = "digits_rtm+imle.pool=2+sweep=[]+training.epochs=1"
AT = Path("variants/demo")
CHANGES = ["mapper.H=4", "training.lr=1e-3"]
TABLE = "tab_digits_halt_sweep"
FIGURE = "fig_digits_sweep"
CURVES = "fig_digits_curves"


def call(*words: str) -> str:
    answer = rtm(*words, cwd=Path.cwd())
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    (tmp_path / "params").symlink_to(PARAMS)
    monkeypatch.chdir(tmp_path)
    return load("demo")


def test_changes_and_a_variants_name_give_the_same_variant_in_its_own_place(workspace: Config) -> None:
    changed, one = experiment_of("demo", "digits_rtm", 0, CHANGES)
    named, other = experiment_of("demo", f"digits_rtm+{'+'.join(reversed(CHANGES))}", 0)
    assert one == other
    assert one.startswith("digits_rtm+")
    assert changed.experiment(one) == named.experiment(one)
    assert changed.experiment(one).recipe.training.lr == 1e-3
    places = [Train().path(config, "checkpoint", experiment=one, seed=0) for config in (changed, named)]
    assert places[0] == places[1]
    assert places[0].parts[0] == "variants"
    usual, name = experiment_of("demo", "digits_rtm", 2)
    assert usual.experiment(name) == workspace.experiment("digits_rtm")
    assert Train().path(usual, "checkpoint", experiment=name, seed=2).parts[0] == "demo"


@pytest.mark.usefixtures("workspace")
def test_an_unknown_seed_is_answered_with_those_that_are() -> None:
    with pytest.raises(UserError) as error:
        experiment_of("demo", "digits_rtm", 7)
    assert str(error.value) == "digits_rtm has no seed 7; choose one of 0, 1, 2, or add the seed in params/."


def test_a_table_with_gaps_is_printed_and_not_signed_for(workspace: Config) -> None:
    job = Table().job(workspace, table=TABLE)
    assert "--∗" in call("table", TABLE, "--available", "--scale", "demo")
    assert job.first.exists()
    assert not job.receipt.exists()
    answer = rtm("table", TABLE, "--scale", "demo", cwd=Path.cwd())
    assert answer.returncode == 1
    assert "needs results of digits_rtm" in answer.stderr
    assert not job.receipt.exists()
    fake_results.write_results(workspace, "digits_rtm", {"digits_H8": {"fid": 87.6}}, spread=0.1)
    assert "87.6" in call("table", TABLE, "--scale", "demo")
    assert job.receipt.exists()


def test_a_figure_and_the_page_are_signed_for(workspace: Config) -> None:
    fake_results.write_results(workspace, "digits_rtm", {"digits_H8": {"fid": 87.6}}, spread=0.1)
    figure = Figure().job(workspace, figure=FIGURE)
    page = Report().job(workspace)
    assert call("figure", FIGURE, "--scale", "demo") == f"{figure.outputs['png']}\n"
    assert call("report", "--scale", "demo") == f"{page.first}\n"
    assert all(path.exists() for job in (figure, page) for path in (*job.outputs.values(), job.receipt))


@pytest.mark.parametrize(
    ("verb", "name", "stage"),
    [
        ("table", TABLE, "summary"),
        ("table", TABLE, "evaluate"),
        ("figure", FIGURE, "latency"),
        ("figure", CURVES, "train"),
    ],
)
def test_an_edited_input_is_named_and_shown_only_if_that_is_wanted(
    workspace: Config, verb: str, name: str, stage: str
) -> None:
    for experiment in workspace.experiments:
        fake_results.write_results(workspace, experiment, {}, spread=0.1)
        fake_results.write_curves(workspace, experiment)
        for seed in workspace.experiment(experiment).seeds:
            write_text(Train().path(workspace, "checkpoint", experiment=experiment, seed=seed), "weights")
    job = stages()[verb].job(workspace, **{verb: name})
    for before in job.inputs:
        fake_results.sign(Path(), before)
    call(verb, name, "--scale", "demo")
    signed = job.receipt.read_text("utf-8")
    path = next(path for before, path in job.reads() if before.stage.name == stage)
    recorded = path.read_text("utf-8")
    path.write_text(recorded.replace("5", "4", 1), "utf-8")
    for words in ((verb, name, "--scale", "demo"), ("make", job.id)):
        answer = rtm(*words, cwd=Path.cwd())
        assert answer.returncode == 1
        assert answer.stderr.startswith(f"rtm: {path} is not the recorded one; bring it back with `git checkout -- ")
        assert ("add --anyway" in answer.stderr) == (words[0] == verb)
    call(verb, name, "--scale", "demo", "--anyway")
    assert job.receipt.read_text("utf-8") == signed
    path.write_text(recorded, "utf-8")
    call(verb, name, "--scale", "demo")


def test_a_table_of_what_is_available_refuses_edited_files_too(workspace: Config) -> None:
    fake_results.write_results(workspace, "digits_rtm", {"digits_H8": {"fid": 87.6}}, spread=0.1)
    latency = Latency().job(workspace, experiment="digits_rtm")
    fake_results.sign(Path(), latency)
    write_text(latency.first, latency.first.read_text("utf-8").replace("1.0", "0.1", 1))
    answer = rtm("table", TABLE, "--scale", "demo", "--available", cwd=Path.cwd())
    assert answer.stderr.startswith(f"rtm: {latency.first} is not the recorded one")
    assert "87.6" in call("table", TABLE, "--scale", "demo", "--available", "--anyway")


def test_any_job_is_made_by_its_name(workspace: Config) -> None:
    call("make", "demo/report/index")
    assert Report().job(workspace).receipt.exists()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A variant that is trained and measured."""
    folder = tmp_path_factory.mktemp("variant")
    (folder / "params").symlink_to(PARAMS)
    with chdir(folder):
        fetch(load("demo"), "digits300", "digits_rest")
        call("make", "reference/digits300/digits")
        call("train", "digits_rtm", "--scale", "demo", "training.epochs=1", "sweep=[]", "imle.pool=2")
        call("evaluate", "digits_rtm+training.epochs=1+sweep=[]+imle.pool=2", "--scale", "demo")  # in any order
        call("make", f"{AT}/latency/{NAME}")
    return folder


@pytest.mark.slow(seconds=20)
def test_it_is_measured_under_its_own_name(folder: Path) -> None:
    measured = read_json(folder / AT / f"results/{NAME}/digits/seed0.json")
    assert measured["experiment"] == NAME
    assert measured["metrics"]["native"]["fid"] > 0
    assert read_json(folder / AT / f"results/{NAME}/latency.json")["mapper_parameters"] > 0
    answer = rtm("make", f"{AT}/summary/{NAME}", cwd=folder)  # a summary needs all seeds
    assert answer.returncode == 1
    assert f"Begin with `rtm make {AT}/train/{NAME}/seed1`" in answer.stderr


@pytest.mark.slow(seconds=1)
def test_it_is_never_taken_for_its_experiment(folder: Path) -> None:
    with chdir(folder):
        graph = every_job()
        assert not [job for job in graph.values() if "experiment" in job.names and job.receipt.exists()]
        assert not Freshness().is_fresh(graph["demo/train/digits_rtm/seed0"])
        assert NAME not in call("status", "--scale", "demo")
        assert not Path("demo").exists()


@pytest.mark.slow(seconds=1)
def test_its_lineage_is_shown(folder: Path) -> None:
    with chdir(folder):
        why = call("lineage", "why", f"{AT}/train/{NAME}/seed0", f"{AT}/lineage/latency/{NAME}.json")
        trained = call("lineage", f"{AT}/checkpoints/{NAME}/seed0.safetensors")
    assert why == f"{AT}/train/{NAME}/seed0, {AT}/latency/{NAME}: fresh\n"
    assert trained.startswith(f"{AT}/train/{NAME}/seed0: fresh\n")


@pytest.mark.slow(seconds=1)
def test_it_draws(folder: Path) -> None:
    with chdir(folder):
        assert call("generate", f"demo/{NAME}", "--count", "2").startswith("generated/digits_rtm+")


@pytest.mark.slow(seconds=2)
def test_a_pilot_prints_a_line_for_each_radius_and_its_advice(folder: Path) -> None:
    with chdir(folder):
        words = ("train", "digits_rtm+training.steps=2+training.epochs=null", "--scale", "demo")
        head, first, second, advice = call(*words, "--pilot", "0", "0.5").splitlines()
    assert head.split()[:4] == ["epsilon", "radius", "rejected", "gap"]
    assert "after 2 steps of digits_rtm" in head
    assert [line.split()[0] for line in (first, second)] == ["0", "0.5"]
    assert "digits_rtm" in advice
