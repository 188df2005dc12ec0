"""Snakemake and DVC together, with the real tools: exactly the jobs run that must run."""

import csv
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, tool_server
from support.standin import Repository, write

from rtm.core.files import write_text

pytestmark = [pytest.mark.slow(seconds=6), pytest.mark.usefixtures("warm_tools")]
NOTHING: list[str] = []
RTM_CHANGED = [  # jobs that depend on the mapper of an experiment with one seed
    "evaluate/cifar10_imle_rtm/paper/seed0",
    "latency/cifar10_imle_rtm",
    "summary/cifar10_imle_rtm",
    "table/tab_cifar10",
    "train/cifar10_imle_rtm/seed0",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository where everything is made, recorded by DVC, pushed and committed."""
    repository = Repository.create(tmp_path_factory.mktemp("rtm") / "finished")
    repository.run("rtm everything")
    repository.run("dvc commit -q -f")
    repository.run("dvc push -q")
    repository.commit("everything")
    return repository


@pytest.fixture
def repository(finished: Repository, request: pytest.FixtureRequest) -> Repository:
    """A copy of the finished repository that a test may change."""
    return finished.copy(finished.folder.with_name(request.node.name))


def set_mapper(entries: Any) -> None:
    entries["cifar10_imle_rtm"]["mapper"] = "rtm_16_2"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize("cache", ["copy", "hardlink", "symlink"])
def test_a_clone_has_nothing_to_do(finished: Repository, cache: str) -> None:
    clone = finished.clone(finished.folder.with_name(f"clone_{cache}"))
    clone.run("dvc", "config", "--local", "cache.type", cache)
    assert clone.planned("all") == NOTHING  # the tables are there; the weights are not needed
    clone.run("dvc pull -q")
    assert clone.planned("all") == NOTHING
    assert "up to date" in clone.run("dvc status")


def test_one_experiment_changes_through_snakemake_then_dvc(repository: Repository) -> None:
    repository.change("experiments", set_mapper)
    assert "train/cifar10_imle_rtm/seed0 will be trained again: mapper.L: 1 -> 2" in repository.snakemake("all", "demo")
    assert repository.ran() == RTM_CHANGED
    repository.run("dvc repro tab_cifar10 tab_celebahq demo")
    assert repository.ran() == NOTHING  # recorded, not made again
    assert "up to date" in repository.run("dvc status --with-deps tab_cifar10")


def test_one_experiment_changes_through_dvc_then_snakemake(repository: Repository) -> None:
    before = repository.run("git rev-parse HEAD").strip()
    repository.change("experiments", set_mapper)
    repository.run("dvc repro tab_cifar10 tab_celebahq demo")
    assert repository.ran() == RTM_CHANGED
    assert repository.planned() == NOTHING
    assert "digits.fid" in repository.run("dvc metrics diff")
    repository.commit("another mapper")
    repository.run("git", "checkout", "-q", before)
    for command in (["snakemake", "--cores", "all", "--", "all"], ["dvc", "repro", "cifar10_imle_rtm"]):
        output = repository.run(*command, fails=True)  # the weights belong to the other commit
        assert "checkpoints/cifar10_imle_rtm/seed0.safetensors is not the recorded one" in output
        assert "dvc checkout" in output
    assert repository.ran() == NOTHING
    repository.run("dvc checkout -q")
    assert repository.planned() == NOTHING
    assert "up to date" in repository.run("dvc status")


def caption(tables: Any) -> None:
    tables["tab_celebahq"]["caption"] = "Another caption"


def number(published: Any) -> None:
    published["somebody"]["values"]["fid"] = 3.5


def neighbours(protocols: Any) -> None:
    protocols["digits"]["k"] = 5


def unread(recipes: Any) -> None:
    recipes["cifar10_imle"]["resources"]["hours"] = 7
    recipes["cifar10_imle"]["training"]["save_every"] = 7


def title(datasets: Any) -> None:
    datasets["cifar10"]["title"] = "CIFAR"


def test_only_what_reads_a_parameter_runs(finished: Repository) -> None:
    """Each change is undone before the next one. If that made jobs stale, the next plan would show them."""
    protocol = ["evaluate"] * 2 + ["summary"] * 2 + ["table"]
    cases: list[tuple[str, Callable[[Any], None], list[str]]] = [
        ("tables", caption, ["table"]),
        ("recipes", unread, NOTHING),
        ("published", number, ["table"]),
        ("datasets", title, NOTHING),
        ("protocols", neighbours, protocol),
    ]
    for section, change, planned in cases:
        path = finished.folder / f"params/{section}.yaml"
        before = path.read_text("utf-8")
        try:
            finished.change(section, change)
            assert finished.planned() == planned, section
        finally:
            path.write_text(before, "utf-8")
    assert finished.planned() == NOTHING


def change_code(repository: Repository, path: str, text: str = "CHANGED = 1") -> None:
    repository.append(path, f"\n\n{text}\n")


def test_code_counts_as_syntax(repository: Repository) -> None:
    change_code(repository, "rtm/models/mappers.py", '"""A text."""  # a remark')
    assert repository.planned() == NOTHING
    change_code(repository, "rtm/models/mappers.py")
    output = repository.run("snakemake -n -- all")
    for name in ("cifar10_imle_mlp/seed0", "cifar10_imle_rtm/seed0", "celebahq_imle_rtm/seed1"):
        assert f"train/{name} will be trained again: code of rtm/models/mappers.py changed" in output
    assert "code of rtm/models/mappers.py changed" in repository.run("rtm lineage why reports/tab_cifar10.tex")
    assert "--reason" in repository.run("rtm lineage accept reports/tab_cifar10.tex", fails=True)
    targets = ["reports/tab_cifar10.tex", "reports/tab_celebahq.tex", "demo/reports/tab_digits.tex", "gallery"]
    repository.run("rtm", "lineage", "accept", *targets, "demo/gallery", "--reason", "a constant that nobody reads")
    assert repository.planned() == NOTHING
    assert repository.run("git diff -- lineage") == ""  # no receipt is signed again
    lines = repository.text("lineage/accepted.jsonl").splitlines()
    assert all("a constant that nobody reads" in line for line in lines)
    assert repository.run("rtm lineage why reports/tab_cifar10.tex").strip() == "table/tab_cifar10: fresh"


def test_branches_that_accept_refactorings_merge(repository: Repository) -> None:
    """There is no conflict. What both branches changed together is one more acceptance."""
    changes = {"mine": "rtm/models/mappers.py", "theirs": "rtm/metrics/sampling.py"}
    targets = ["table/tab_cifar10", "table/tab_celebahq", "gallery", "demo/table", "demo/gallery"]
    for branch, path in changes.items():
        repository.run("git", "checkout", "-q", "-b", branch, "main")
        change_code(repository, path)
        assert repository.planned("all") != NOTHING
        repository.run("rtm", "lineage", "accept", *targets, "--reason", f"{branch}: nothing reads it")
        assert repository.planned() == NOTHING
        repository.commit(branch)
    repository.run("git merge -q --no-edit mine")
    lines = repository.text("lineage/accepted.jsonl")
    assert "mine:" in lines
    assert "theirs:" in lines
    assert "all true" in repository.run("rtm lineage check")
    repository.run("rtm", "lineage", "accept", *targets, "--reason", "both")
    assert repository.planned() == NOTHING
    assert repository.ran() == NOTHING


def test_a_renderer_changes_tables_alone(repository: Repository) -> None:
    change_code(repository, "rtm/reports/tables.py")
    assert repository.planned() == ["table"] * 3
    repository.run("git checkout -q rtm")
    repository.append("rtm/reports/templates/table.tex.j2", "%")
    assert repository.planned() == ["table"] * 3


def test_outputs_dated_in_the_future_are_made_again(repository: Repository) -> None:
    later = time.time() + 3600
    for path in (*repository.folder.glob("reports/*"), *repository.folder.glob("results/*/metrics.json")):
        os.utime(path, (later, later))
    repository.change("tables", caption)
    assert repository.planned() == ["table"]
    repository.snakemake("all")
    assert repository.ran() == ["table/tab_celebahq"]
    assert repository.planned() == NOTHING


def test_changed_outputs_and_receipts_are_named(repository: Repository) -> None:
    metrics = repository.folder / "results/cifar10_imle_rtm/paper/seed0.json"
    metrics.write_text(metrics.read_text("utf-8").replace("fid", "FID"), "utf-8")
    receipt = repository.folder / "lineage/table/tab_celebahq.json"
    edit(receipt, '"fid": 2.5', '"fid": 9.5')
    output = repository.run("rtm lineage check", fails=True)
    assert "results/cifar10_imle_rtm/paper/seed0.json is not the recorded one" in output
    assert "lineage/table/tab_celebahq.json was edited" in output
    assert repository.planned() == ["evaluate", "summary", "table", "table"]
    assert "not the recorded one" in repository.run("rtm lineage why reports/tab_cifar10.tex")
    repository.run("git checkout -q .")
    assert repository.planned() == NOTHING
    weights = repository.folder / "checkpoints/cifar10_imle_mlp/seed0.safetensors"
    weights.write_text(weights.read_text("utf-8")[::-1], "utf-8")
    output = repository.run("snakemake -n -- all", fails=True)  # damaged weights never cause a training
    assert "train/cifar10_imle_mlp/seed0 is finished" in output
    assert "dvc checkout checkpoints/cifar10_imle_mlp" in output
    repository.remove("demo/results/digits_rtm/digits")
    assert repository.planned("demo") == NOTHING
    assert repository.planned("demo/results/digits_rtm/digits/seed0.json") == ["evaluate"]


def test_weights_that_are_elsewhere_are_asked_for(finished: Repository) -> None:
    clone = finished.clone(finished.folder.with_name("unpulled"))
    clone.change("protocols", lambda protocols: protocols["paper"].update(k=7))
    output = clone.run("snakemake -n -- all", fails=True, RTM_CACHE="off")
    assert "dvc pull checkpoints/" in output
    assert "dvc pull" in clone.run("rtm train cifar10_imle_mlp", fails=True, RTM_CACHE="off")
    clone.run("dvc pull -q checkpoints/celebahq_imle_rtm")
    rules = clone.planned("reports/tab_celebahq.tex")
    assert "train" not in rules
    assert rules.count("evaluate") == 2


def test_a_finished_training_elsewhere_is_not_planned_with_another(finished: Repository) -> None:
    """In a clone without weights and images, one training must run and needs images that another training also reads.
    Git keeps the curve of that other training, so it must not run."""
    clone = finished.clone(finished.folder.with_name("clone_one_of_two"))
    clone.change("experiments", set_mapper)
    targets = ("reports/tab_cifar10.tex", "results/cifar10_imle_mlp/training/seed0.csv")
    planned = clone.planned(*targets)
    assert planned.count("train") == 1
    assert "dataset" in planned
    assert "rtm: 1 training to do, at most " in clone.snakemake(*targets)
    assert [job for job in clone.ran() if job.startswith("train/")] == ["train/cifar10_imle_rtm/seed0"]


def test_an_absent_result_asks_for_its_absent_weights(repository: Repository) -> None:
    for folder in ("galleries/cifar10_imle_rtm", "checkpoints/cifar10_imle_rtm", ".dvc/cache"):
        repository.remove(folder)
    output = repository.run("snakemake -n -- galleries/cifar10_imle_rtm/seed0.npz", fails=True)
    assert "train/cifar10_imle_rtm/seed0 is finished" in output
    assert "dvc pull checkpoints/cifar10_imle_rtm" in output


def test_weights_without_a_receipt_are_reported(repository: Repository) -> None:
    repository.remove("lineage/train/cifar10_imle_mlp/seed0.json")
    output = repository.run("snakemake -n -- all", RTM_CACHE="off")
    assert "train/cifar10_imle_mlp/seed0 will be trained again: it has no receipt" in output
    assert "`git checkout -- lineage/train/cifar10_imle_mlp/seed0.json`" in output


def test_a_failed_training_deletes_nothing(repository: Repository) -> None:
    weights = repository.folder / "checkpoints/cifar10_imle_rtm/seed0.safetensors"
    before = weights.read_bytes()
    repository.change("experiments", set_mapper)
    (repository.folder / "stop").touch()
    repository.snakemake(str(weights.relative_to(repository.folder)), fails=True)
    assert weights.read_bytes() == before
    repository.snakemake(str(weights.relative_to(repository.folder)))
    assert weights.read_bytes() != before


def test_costly_trainings_are_not_repeated_unasked(repository: Repository) -> None:
    """Both tools refuse, with the list, the reasons and three ways out. A name or a number of hours allows the run."""
    name = "train/cifar10_imle_rtm/seed0"
    weights = "checkpoints/cifar10_imle_rtm/seed0.safetensors"
    receipt = repository.folder / f"lineage/{name}.json"
    content = json.loads(receipt.read_text("utf-8"))
    content["made"]["gpu_hours"] = 5.0
    write(receipt, json.dumps(content))
    repository.change("experiments", set_mapper)
    for command in (["snakemake", "--cores", "all", "--", "all"], ["dvc", "repro", "tab_cifar10"]):
        printed = repository.run(*command, fails=True)
        assert "1 finished training (5.0 GPU-hours) would run again:" in printed
        assert f"  {name}: 5.0 hours, mapper.L: 1 -> 2" in printed
        for way in ("rtm lineage accept", "dvc fetch", f"--config redo={name}", f"RTM_REDO={name} dvc repro"):
            assert way in printed
    assert repository.ran() == NOTHING
    repository.run("snakemake", "--cores", "all", "--config", "redo=4", "--", weights, fails=True)
    repository.run("snakemake", "--cores", "all", "--config", "redo=train/cifar10_imle_mlp", "--", weights, fails=True)
    assert repository.ran() == NOTHING
    repository.run("dvc repro tab_cifar10", RTM_REDO="train/cifar10_imle_rtm")
    assert repository.ran() == RTM_CHANGED


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("tab_cifar10", "reports/tab_cifar10.tex"),
        ("paper", "snakemake all"),
        ("train", "checkpoints/cifar10_imle_mlp/seed0.safetensors"),
        ("cifar10_imle_rtm", "results/cifar10_imle_rtm/metrics.json"),
    ],
)
def test_targets_that_people_type_are_answered(finished: Repository, typed: str, meant: str) -> None:
    printed = finished.run("snakemake", "-n", typed, fails=True)
    assert f"rtm: {typed} is not a target" in printed
    assert meant in printed
    assert "Traceback" not in printed


def test_a_new_experiment_is_one_entry(repository: Repository) -> None:
    entry = {"recipe": "cifar10_imle", "mapper": "rtm_8_2"}
    repository.change("experiments", lambda entries: entries.update(cifar10_new=entry))
    assert "cifar10_new" not in repository.run("dvc stage list")
    assert repository.planned() == NOTHING
    rules = ["evaluate", "latency", "summary", "train"]
    have = {"dataset", "network", "reference"}  # a clone has only the receipts of these
    assert [rule for rule in repository.planned("results/cifar10_new/metrics.json") if rule not in have] == rules
    row = {"title": "new", "experiment": "cifar10_new"}
    repository.change("tables", lambda tables: tables["tab_cifar10"]["groups"][0]["rows"].append(row))
    repository.snakemake("reports/tab_cifar10.tex")
    repository.run("rtm lineage dvc")
    assert "results/cifar10_new/metrics.json" in repository.text("dvc.yaml")


def test_experiments_of_dvc_are_compared(repository: Repository) -> None:
    """`dvc exp run -S` runs the changed jobs; DVC compares metrics, parameters and curves."""
    metrics = "demo/results/digits_rtm/metrics.json"
    repository.run("dvc exp run -q -S params/mappers.yaml:mappers.digits_rtm.L=3 -n deeper demo")
    stages = {job.split("/")[1] for job in repository.ran()}
    assert stages == {"train", "evaluate", "latency", "summary", "table"}
    rows = list(csv.DictReader(repository.run("dvc exp show --csv").splitlines()))
    shown = {row["Experiment"] or row["rev"]: row[f"{metrics}:digits.fid"] for row in rows}
    fid = json.loads(repository.run("dvc metrics diff --json main deeper"))[metrics]["digits.fid"]
    assert (float(shown["main"]), float(shown["deeper"])) == (fid["old"], fid["new"])
    assert json.loads(repository.run("dvc params diff --json main deeper")) == {
        "params/mappers.yaml": {"mappers.digits_rtm.L": {"old": 1, "new": 3, "diff": 2}}
    }
    plots = json.loads(repository.run("dvc plots diff --json main deeper"))["data"]
    for plot in ("demo/results/digits_rtm/training/seed0.csv", "digits_rtm: digits.fid against H"):
        points = plots[plot][0]["content"]["data"]["values"]
        assert {point["rev"] for point in points} == {"main", "deeper"}


def test_the_page_is_made_from_every_report(repository: Repository) -> None:
    page = repository.folder / "demo/reports/index.html"
    assert repository.planned("demo/reports/index.html") == NOTHING
    repository.change("tables", lambda tables: tables["tab_digits"].update(caption="Another"))
    assert repository.planned("demo/reports/index.html") == ["report", "table"]
    before = page.read_text("utf-8")
    repository.snakemake("demo/reports/index.html")
    assert repository.ran() == ["demo/report/index", "demo/table/tab_digits"]
    assert page.read_text("utf-8") != before
    assert not repository.run("git", "status", "--short", "--", str(page))


def test_a_misspelt_target_gets_the_names_there_are(finished: Repository) -> None:
    output = finished.run("snakemake -n -- reports/tab_cifar.tex", fails=True)
    assert "Nothing makes reports/tab_cifar.tex; choose one of reports/tab_cifar10.tex" in output
    output = finished.run("snakemake -n --rerun-triggers code -- all", fails=True)
    assert "--rerun-triggers mtime" in output


def test_one_dataset_of_several(tmp_path: Path) -> None:
    """Each dataset is pulled and recorded alone. A fetch replaces DVC's links and never writes through them."""
    here = Repository(tmp_path / "here")
    write(here.folder / ".dvc/config", (ROOT / ".dvc/config").read_text("utf-8"))
    (here.folder / "bin").mkdir()
    tool_server.write_client(here.folder / "bin/dvc")
    here.run("git init -q -b main")
    for name in ("cifar10", "digits", "obama"):
        write(here.folder / f"data/{name}/images.npy", name)
    here.run("dvc add -q data")
    here.run("dvc push -q")
    here.commit("three datasets")
    clone = here.clone(tmp_path / "clone")
    clone.run("dvc config --local cache.type hardlink")
    clone.run("dvc pull -q data/cifar10")
    assert [path.name for path in (clone.folder / "data").iterdir()] == ["cifar10"]
    write_text(clone.folder / "data/cifar10/images.npy", "fetched anew")
    clone.run("dvc add -q data/cifar10")
    clone.run("dvc push -q")
    clone.commit("another cifar10")
    here.run("git", "pull", "-q", str(clone.folder), "main")
    here.run("dvc pull -q")
    held = {path.parent.name: path.read_text("utf-8") for path in here.folder.glob("data/*/images.npy")}
    assert held == {"cifar10": "fetched anew", "digits": "digits", "obama": "obama"}


def test_the_profile_for_one_machine(finished: Repository) -> None:
    assert "Nothing to be done" in finished.run("snakemake --profile profiles/local -- all demo")


def test_lint(finished: Repository) -> None:
    assert "Congratulations" in finished.run("snakemake --lint")
