"""Snakemake and DVC together, with the real tools: exactly the jobs run that must run."""

import csv
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT, tool_server
from support.standin import Repository, write

from rtm.core.files import write_text

pytestmark = [pytest.mark.slow(seconds=6), pytest.mark.usefixtures("warm_tools")]
NOTHING: list[str] = []
RTM_CHANGED = [  # jobs that depend on the mapper of an experiment with one seed
    "evaluate/cifar10_imle_rtm/paper/seed0",
    "latency/cifar10_imle_rtm",
    "sample/cifar10_imle_rtm/seed0",
    "summary/cifar10_imle_rtm",
    "table/tab_cifar10",
    "train/cifar10_imle_rtm/seed0",
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """A repository where everything is made, recorded by DVC, pushed and committed."""
    repository = Repository.create(tmp_path_factory.mktemp("rtm") / "finished")
    repository.run("rtm", "everything")
    repository.run("dvc", "commit", "-q", "-f")
    repository.run("dvc", "push", "-q")
    repository.commit("everything")
    return repository


@pytest.fixture
def repository(finished: Repository, request: pytest.FixtureRequest) -> Repository:
    """A copy of the finished repository that a test may change."""
    return finished.copy(finished.folder.with_name(request.node.name))


def set_mapper(entries: Any) -> None:
    entries["cifar10_imle_rtm"]["mapper"] = "rtm_16_2"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("cache", ["copy", "hardlink", "symlink"])
def test_a_clone_has_nothing_to_do(finished: Repository, cache: str) -> None:
    clone = finished.clone(finished.folder.with_name(f"clone_{cache}"))
    clone.run("dvc", "config", "--local", "cache.type", cache)
    assert clone.planned("all") == NOTHING  # the tables are there; the weights are not needed
    clone.run("dvc", "pull", "-q")
    assert clone.planned("all") == NOTHING
    assert "up to date" in clone.run("dvc", "status")


def test_one_experiment_changes_through_snakemake_then_dvc(repository: Repository) -> None:
    repository.change("experiments", set_mapper)
    assert "train/cifar10_imle_rtm/seed0 will be trained again: mapper.L: 1 -> 2" in repository.snakemake("all", "demo")
    assert repository.ran() == RTM_CHANGED
    repository.run("dvc", "repro", "tab_cifar10", "tab_celebahq", "demo")
    assert repository.ran() == NOTHING  # recorded, not made again
    assert "up to date" in repository.run("dvc", "status", "--with-deps", "tab_cifar10")


def test_one_experiment_changes_through_dvc_then_snakemake(repository: Repository) -> None:
    before = repository.run("git", "rev-parse", "HEAD").strip()
    repository.change("experiments", set_mapper)
    repository.run("dvc", "repro", "tab_cifar10", "tab_celebahq", "demo")
    assert repository.ran() == RTM_CHANGED
    assert repository.planned() == NOTHING
    assert "digits.fid" in repository.run("dvc", "metrics", "diff")
    repository.commit("another mapper")
    repository.run("git", "checkout", "-q", before)
    for command in (["snakemake", "--cores", "all", "--", "all"], ["dvc", "repro", "train@cifar10_imle_rtm"]):
        output = repository.run(*command, fails=True)  # the weights belong to the other commit
        assert "checkpoints/cifar10_imle_rtm/seed0.safetensors is not the recorded one" in output
        assert "dvc checkout" in output
    assert repository.ran() == NOTHING
    repository.run("dvc", "checkout", "-q")
    assert repository.planned() == NOTHING
    assert "up to date" in repository.run("dvc", "status")


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
    protocol = ["evaluate"] * 2 + ["sample"] * 2 + ["summary"] * 2 + ["table"]
    cases: list[tuple[str, Callable[[Any], None], list[str]]] = [
        ("tables", caption, ["table"]),
        ("recipes", unread, NOTHING),
        ("published", number, ["table"]),
        ("datasets", title, NOTHING),
        ("protocols", neighbours, protocol),
    ]
    for section, change, planned in cases:
        path = finished.folder / f"params/{section}.yaml"
        before = path.read_text()
        try:
            finished.change(section, change)
            assert finished.planned() == planned, section
        finally:
            path.write_text(before)
    assert finished.planned() == NOTHING


def test_code_counts_by_content(repository: Repository) -> None:
    mappers = repository.folder / "rtm/models/mappers.py"
    edit(mappers, "def refine():\n", 'def refine() -> int:  # a remark\n    """Text."""\n\n')
    edit(mappers, "def refine", "def unused():\n    return 7\n\n\ndef refine")
    assert repository.planned() == NOTHING
    edit(mappers, "return 1", "return 1 + 1")
    output = repository.run("snakemake", "-n", "--", "all")
    for name in ("cifar10_imle_mlp/seed0", "cifar10_imle_rtm/seed0", "celebahq_imle_rtm/seed1"):
        assert f"train/{name} will be trained again: code of rtm.models.mappers:refine changed" in output
    assert "code of rtm.models.mappers:refine changed" in repository.run(
        "rtm", "lineage", "why", "reports/tab_cifar10.tex"
    )
    assert "--reason" in repository.run("rtm", "lineage", "accept", "reports/tab_cifar10.tex", fails=True)
    targets = ["reports/tab_cifar10.tex", "reports/tab_celebahq.tex", "demo/reports/tab_digits.tex"]
    repository.run("rtm", "lineage", "accept", *targets, "--reason", "1 + 1 is written out")
    assert repository.planned() == NOTHING
    assert repository.run("git", "diff", "--", "lineage") == ""  # no receipt is signed again
    (line,) = (repository.folder / "lineage/equivalences.jsonl").read_text().splitlines()
    assert "1 + 1 is written out" in line
    assert repository.run("rtm", "lineage", "why", "reports/tab_cifar10.tex").strip() == "table/tab_cifar10: fresh"


def test_branches_that_accept_refactorings_merge(repository: Repository) -> None:
    """There is no conflict, and nothing is stale: each branch accepted definitions and signed no receipt again."""
    changes = {"mine": ("rtm/models/mappers.py", "return 1 + 0"), "theirs": ("rtm/metrics/sampling.py", "return 2 - 1")}
    for branch, (path, text) in changes.items():
        repository.run("git", "checkout", "-q", "-b", branch, "main")
        edit(repository.folder / path, "return 1", text)
        assert repository.planned("all") != NOTHING
        targets = ["table/tab_cifar10", "table/tab_celebahq", "gallery", "demo/table", "demo/gallery"]
        repository.run("rtm", "lineage", "accept", *targets, "--reason", f"{branch}: a number is written otherwise")
        assert repository.planned() == NOTHING
        repository.commit(branch)
    repository.run("git", "merge", "-q", "--no-edit", "mine")
    lines = (repository.folder / "lineage/equivalences.jsonl").read_text()
    assert "mine:" in lines and "theirs:" in lines
    assert repository.planned() == NOTHING
    assert "all true" in repository.run("rtm", "lineage", "check")
    assert repository.ran() == NOTHING


def test_a_renderer_changes_tables_alone(repository: Repository) -> None:
    edit(repository.folder / "rtm/reports/tables.py", "return 1", "return 2")
    assert repository.planned() == ["table"] * 3
    edit(repository.folder / "rtm/reports/tables.py", "return 2", "return 1")
    edit(repository.folder / "rtm/reports/templates/table.tex.j2", "a table", "the table")
    assert repository.planned() == ["table"] * 3


def test_outputs_dated_in_the_future_are_made_again(repository: Repository) -> None:
    later = time.time() + 3600
    for path in (*repository.folder.glob("reports/*"), *repository.folder.glob("results/*/metrics.json")):
        os.utime(path, (later, later))
    repository.change("tables", caption)
    assert repository.planned() == ["table"]
    repository.snakemake("all")
    assert repository.ran() == ["table/tab_celebahq"] and repository.planned() == NOTHING


def test_changed_outputs_and_receipts_are_named(repository: Repository) -> None:
    metrics = repository.folder / "results/cifar10_imle_rtm/paper/seed0.json"
    metrics.write_text(metrics.read_text().replace("fid", "FID"))
    receipt = repository.folder / "lineage/table/tab_celebahq.json"
    edit(receipt, '"fid": 2.5', '"fid": 9.5')
    output = repository.run("rtm", "lineage", "check", fails=True)
    assert "results/cifar10_imle_rtm/paper/seed0.json is not the recorded one" in output
    assert "lineage/table/tab_celebahq.json was edited" in output
    assert repository.planned() == ["evaluate", "sample", "summary", "table", "table"]
    assert "not the recorded one" in repository.run("rtm", "lineage", "why", "reports/tab_cifar10.tex")
    repository.run("git", "checkout", "-q", ".")
    assert repository.planned() == NOTHING
    weights = repository.folder / "checkpoints/cifar10_imle_mlp/seed0.safetensors"
    weights.write_text(weights.read_text()[::-1])
    output = repository.run("snakemake", "-n", "--", "all", fails=True)  # damaged weights never cause a training
    assert "train/cifar10_imle_mlp/seed0 is finished" in output
    assert "dvc checkout checkpoints/cifar10_imle_mlp" in output
    shutil.rmtree(repository.folder / "demo/results/digits_rtm/digits")
    assert repository.planned("demo") == NOTHING
    assert repository.planned("demo/results/digits_rtm/digits/seed0.json") == ["evaluate", "sample"]


def test_weights_that_are_elsewhere_are_asked_for(finished: Repository) -> None:
    clone = finished.clone(finished.folder.with_name("unpulled"))
    clone.change("protocols", lambda protocols: protocols["paper"].update(k=7))
    output = clone.run("snakemake", "-n", "--", "all", fails=True)
    assert "dvc pull checkpoints/" in output
    assert "dvc pull" in clone.run("rtm", "train", "cifar10_imle_mlp", "--seed", "0", "--scale", "paper", fails=True)
    clone.run("dvc", "pull", "-q", "checkpoints/celebahq_imle_rtm")
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
    assert planned.count("train") == 1 and "dataset" in planned
    assert "rtm: 1 training to do, at most " in clone.snakemake(*targets)
    assert [job for job in clone.ran() if job.startswith("train/")] == ["train/cifar10_imle_rtm/seed0"]


def test_an_absent_result_asks_for_its_absent_weights(repository: Repository) -> None:
    for folder in ("galleries/cifar10_imle_rtm", "checkpoints/cifar10_imle_rtm", ".dvc/cache"):
        shutil.rmtree(repository.folder / folder)
    output = repository.run("snakemake", "-n", "--", "galleries/cifar10_imle_rtm/seed0.npz", fails=True)
    assert "train/cifar10_imle_rtm/seed0 is finished" in output and "dvc pull checkpoints/cifar10_imle_rtm" in output


def test_weights_without_a_receipt_are_reported(repository: Repository) -> None:
    (repository.folder / "lineage/train/cifar10_imle_mlp/seed0.json").unlink()
    output = repository.run("snakemake", "-n", "--", "all", RTM_STORE="off")
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
    name, weights = "train/cifar10_imle_rtm/seed0", "checkpoints/cifar10_imle_rtm/seed0.safetensors"
    receipt = repository.folder / f"lineage/{name}.json"
    content = json.loads(receipt.read_text())
    content["made"]["gpu_hours"] = 5.0
    write(receipt, json.dumps(content))
    repository.change("experiments", set_mapper)
    for command in (["snakemake", "--cores", "all", "--", "all"], ["dvc", "repro", "tab_cifar10"]):
        printed = repository.run(*command, fails=True)
        assert "Finished trainings would run again: 1, 5.0 GPU-hours." in printed
        assert f"  {name}: 5.0 hours, mapper.L: 1 -> 2" in printed
        for way in ("rtm lineage accept", "rtm store pull", f"--config redo={name}", f"RTM_REDO={name} dvc repro"):
            assert way in printed
    assert repository.ran() == NOTHING
    repository.run("snakemake", "--cores", "all", "--config", "redo=4", "--", weights, fails=True)
    repository.run("snakemake", "--cores", "all", "--config", "redo=train/cifar10_imle_mlp", "--", weights, fails=True)
    assert repository.ran() == NOTHING
    repository.run("dvc", "repro", "tab_cifar10", RTM_REDO="train/cifar10_imle_rtm")
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
    assert f"rtm: {typed} is not a target" in printed and meant in printed and "Traceback" not in printed


def test_a_new_experiment_is_one_entry(repository: Repository) -> None:
    entry = {"recipe": "cifar10_imle", "mapper": "rtm_8_2"}
    repository.change("experiments", lambda entries: entries.update(cifar10_new=entry))
    assert "train@cifar10_new" in repository.run("dvc", "stage", "list")
    assert repository.planned() == NOTHING
    rules = ["evaluate", "latency", "sample", "summary", "train"]
    have = {"dataset", "network", "reference"}  # a clone has only the receipts of these
    assert [rule for rule in repository.planned("results/cifar10_new/metrics.json") if rule not in have] == rules
    row = {"title": "new", "experiment": "cifar10_new"}
    repository.change("tables", lambda tables: tables["tab_cifar10"]["groups"][0]["rows"].append(row))
    assert "rtm lineage dvc" in repository.run("dvc", "repro", "tab_cifar10", fails=True)
    repository.run("rtm", "lineage", "dvc")
    assert "results/cifar10_new/metrics.json" in (repository.folder / "dvc.yaml").read_text()


def test_experiments_of_dvc_are_compared(repository: Repository) -> None:
    """`dvc exp run -S` runs the changed jobs; DVC compares metrics, parameters and curves."""
    change = ("-S", "params/mappers.yaml:mappers.digits_rtm.L=3", "-n", "deeper")
    repository.run("dvc", "exp", "run", "-q", *change, "demo")
    assert {job.split("/")[1] for job in repository.ran()} == {
        *("train", "sample", "evaluate", "latency", "summary", "table")
    }
    shown = list(csv.DictReader(repository.run("dvc", "exp", "show", "--csv").splitlines()))
    column = "demo/results/digits_rtm/metrics.json:digits.fid"
    before, deeper = (next(float(row[column]) for row in shown if name in row.values()) for name in ("main", "deeper"))
    output = json.loads(repository.run("dvc", "metrics", "diff", "--json", "main", "deeper"))
    differs = output["demo/results/digits_rtm/metrics.json"]["digits.fid"]
    assert (differs["old"], differs["new"]) == (before, deeper)
    assert json.loads(repository.run("dvc", "params", "diff", "--json", "main", "deeper")) == {
        "params/mappers.yaml": {"mappers.digits_rtm.L": {"old": 1, "new": 3, "diff": 2}}
    }
    plots = json.loads(repository.run("dvc", "plots", "diff", "--json", "main", "deeper"))["data"]
    for plot in ("demo/results/digits_rtm/training/seed0.csv", "digits_rtm: digits.fid against H"):
        assert {point["rev"] for point in plots[plot][0]["content"]["data"]["values"]} == {"main", "deeper"}


def test_others_images_are_measured_for_their_table(repository: Repository) -> None:
    entry = {"source": "S", "samples": "x.npy", "sha256": "0" * 64, "dataset": "cifar10", "protocols": ["paper"]}
    repository.change("foreign", lambda entries: entries.update(others=entry))
    row = {"title": "Others", "foreign": "others"}
    repository.change("tables", lambda tables: tables["tab_cifar10"]["groups"][0]["rows"].append(row))
    assert repository.planned() == ["foreign", "table"]
    repository.run("rtm", "lineage", "dvc")
    stages = yaml.safe_load((repository.folder / "dvc.yaml").read_text())["stages"]
    assert "results/others/paper.json" in stages["tab_cifar10"]["deps"]
    assert {"results/others/paper.json": {"persist": True, "cache": False}} in stages["foreign"]["outs"]


def test_the_page_is_made_from_every_report(repository: Repository) -> None:
    page = repository.folder / "demo/reports/index.html"
    assert repository.planned("demo/reports/index.html") == NOTHING
    repository.change("tables", lambda tables: tables["tab_digits"].update(caption="Another"))
    assert repository.planned("demo/reports/index.html") == ["report", "table"]
    before = page.read_text()
    repository.snakemake("demo/reports/index.html")
    assert repository.ran() == ["demo/report/index", "demo/table/tab_digits"]
    assert page.read_text() != before and not repository.run("git", "status", "--short", "--", str(page))


def test_a_misspelt_target_gets_the_names_there_are(finished: Repository) -> None:
    output = finished.run("snakemake", "-n", "--", "reports/tab_cifar.tex", fails=True)
    assert "Nothing makes reports/tab_cifar.tex; choose one of reports/tab_cifar10.tex" in output
    output = finished.run("snakemake", "-n", "--rerun-triggers", "code", "--", "all", fails=True)
    assert "--rerun-triggers mtime" in output


def test_one_dataset_of_several(tmp_path: Path) -> None:
    """Each dataset is pulled and recorded alone. A fetch replaces DVC's links and never writes through them."""
    here = Repository(tmp_path / "here")
    write(here.folder / ".dvc/config", (ROOT / ".dvc/config").read_text())
    (here.folder / "bin").mkdir()
    tool_server.write_client(here.folder / "bin/dvc")
    here.run("git", "init", "-q", "-b", "main")
    for name in ("cifar10", "digits", "obama"):
        write(here.folder / f"data/{name}/images.npy", name)
    here.run("dvc", "add", "-q", "data")
    here.run("dvc", "push", "-q")
    here.commit("three datasets")
    clone = here.clone(tmp_path / "clone")
    clone.run("dvc", "config", "--local", "cache.type", "hardlink")
    clone.run("dvc", "pull", "-q", "data/cifar10")
    assert [path.name for path in (clone.folder / "data").iterdir()] == ["cifar10"]
    write_text(clone.folder / "data/cifar10/images.npy", "fetched anew")
    clone.run("dvc", "add", "-q", "data/cifar10")
    clone.run("dvc", "push", "-q")
    clone.commit("another cifar10")
    here.run("git", "pull", "-q", str(clone.folder), "main")
    here.run("dvc", "pull", "-q")
    held = {path.parent.name: path.read_text() for path in here.folder.glob("data/*/images.npy")}
    assert held == {"cifar10": "fetched anew", "digits": "digits", "obama": "obama"}


def test_the_profile_for_one_machine(finished: Repository) -> None:
    assert "Nothing to be done" in finished.run("snakemake", "--profile", "profiles/local", "--", "all", "demo")


def test_lint(finished: Repository) -> None:
    assert "Congratulations" in finished.run("snakemake", "--lint")
