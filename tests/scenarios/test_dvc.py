"""DVC with the real tools, clones and a remote. The demo of the repository is recorded; the paper never ran."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.standin import Repository, write

from rtm.trial import recipe
from rtm.trial.recipe import Choice, Machine

pytestmark = [pytest.mark.slow(seconds=5), pytest.mark.usefixtures("warm_tools")]

NOTHING: list[str] = []
DIGITS = ("digits", "digits300", "digits_rest")
SCREEN = 40  # lines that fit on a screen
MAPPERS = "rtm/models/mappers.py"
DEEPER = "params/mappers.yaml:mappers.digits_rtm.L=3"
RTM_CHANGED = {
    *("demo/train/digits_rtm/seed0", "demo/evaluate/digits_rtm/digits/seed0"),
    *("demo/latency/digits_rtm", "demo/summary/digits_rtm", "demo/table/tab_digits"),
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """The demo, made by Snakemake, recorded by DVC, committed and pushed."""
    repository = Repository.create(tmp_path_factory.mktemp("dvc") / "recorded")
    repository.remove("dvc.yaml")
    repository.run("rtm lineage dvc")
    repository.commit("nothing made")
    repository.snakemake("demo")
    assert {"demo/train/digits_mlp/seed0", *RTM_CHANGED} <= set(repository.ran())
    repository.run(f"rtm lineage dvc {' '.join(DIGITS)} --remote desk")
    repository.run("dvc repro demo")
    assert repository.ran() == NOTHING
    repository.run("dvc push -q")
    repository.commit("the demo")
    return repository


@pytest.fixture
def repository(recorded: Repository, request: pytest.FixtureRequest) -> Repository:
    return recorded.copy(recorded.folder.with_name(request.node.name))


def stages(repository: Repository, name: str = "dvc.yaml") -> dict[str, Any]:
    return dict(yaml.safe_load(repository.text(name))["stages"])


def test_a_clone_of_the_demo_has_nothing_to_do(recorded: Repository) -> None:
    """The tools ask for no files that nobody keeps, and for no experiments that nobody made."""
    clone = recorded.clone(recorded.folder.with_name("clone"))
    assert "fail" not in clone.run("dvc pull").lower()
    assert clone.has("data/digits/images.npy")
    assert clone.planned("demo") == NOTHING
    assert "up to date" in clone.run("dvc status")
    assert "up to date" in clone.run("dvc repro")
    assert clone.ran() == NOTHING
    assert not clone.has("weights")
    assert not clone.has("features")
    assert clone.run("git status --short") == ""


def test_an_accepted_refactoring_is_accepted_in_a_clone(repository: Repository) -> None:
    repository.append(MAPPERS, "\n\nUNUSED = 1\n")
    repository.run("rtm lineage accept demo/table --reason 'nothing reads it'")
    repository.commit("a refactoring")
    clone = repository.clone(repository.folder.with_name("refactored"))
    clone.run("dvc pull -q")
    assert clone.planned("demo") == NOTHING
    clone.run("dvc repro demo")
    assert clone.ran() == NOTHING


def test_a_clone_of_nothing_made_says_so(recorded: Repository) -> None:
    """The first clone that everybody gets: the commands list no files that nobody has made."""
    clone = recorded.clone(recorded.folder.with_name("new"))
    clone.run("git checkout -q 'HEAD^'")
    for command in ("status", "pull", "repro", "metrics diff", "metrics show", "plots show --json", "params diff"):
        printed = clone.run(f"dvc {command}")
        assert "fail" not in printed.lower() and len(printed.splitlines()) < 5, command
    assert clone.ran() == NOTHING


def test_what_never_ran_is_not_listed(repository: Repository) -> None:
    assert not [name for name in stages(repository) if name.startswith(("cifar10", "celebahq"))]
    repository.change("mappers", lambda mappers: mappers["digits_rtm"].update(L=3))
    for command in ("status", "pull", "metrics diff", "metrics show", "plots show --json", "params diff"):
        printed = repository.run(f"dvc {command}")
        assert "fail" not in printed.lower(), command
        assert "--json" in command or len(printed.splitlines()) < SCREEN, command


def test_what_is_made_is_listed(repository: Repository) -> None:
    """After one experiment of the paper is made, its stage is listed; `all` lists the others too."""
    repository.snakemake("results/cifar10_imle_mlp/metrics.json")
    repository.ran()
    repository.run("rtm lineage dvc")
    listed = set(repository.run("dvc stage list --name-only").split())
    assert listed == {"code", "demo", "demo_images", "digits_mlp", "digits_rtm", "tab_digits", "cifar10_imle_mlp"}
    repository.run("dvc repro")
    assert repository.ran() == NOTHING
    assert "up to date" in repository.run("dvc status")
    repository.run("rtm lineage dvc all")
    assert "celebahq_imle_rtm" in repository.run("dvc stage list --name-only")
    assert "rtm lineage dvc" in repository.run("rtm lineage dvc everything", fails=True)


def test_a_stage_shows_what_it_reads(recorded: Repository) -> None:
    """Its keys of params/, a hash of its code, and its command are in dvc.yaml; DVC records their values."""
    stage = stages(recorded)["digits_rtm"]
    keys = {key for params in stage["params"] for keys in params.values() for key in keys}
    assert {"demo.digits_rtm", "mappers.digits_rtm", "recipes.digits_imle", "protocols.digits"} <= keys
    assert "snakemake" in stage["cmd"]
    assert "demo/results/digits_rtm/metrics.json" in stage["cmd"]
    lock = stages(recorded, "dvc.lock")["digits_rtm"]
    assert lock["params"]["params/mappers.yaml"]["mappers.digits_rtm"]["L"] == 1
    assert stages(recorded, "dvc.lock")["code"]["deps"][0]["path"] == "rtm"


def test_only_what_a_change_reaches_is_called(repository: Repository) -> None:
    """A comment reaches no stage. A parameter reaches the stages that read it, also if only one stage is requested."""
    repository.append(MAPPERS, "# a remark\n")
    called = repository.run("dvc repro demo")
    assert called.count("Running stage") == 1
    assert "Running stage 'code'" in called
    repository.change("mappers", lambda mappers: mappers["digits_rtm"].update(L=3))
    assert "mappers.digits_rtm" in repository.run("dvc status")
    called = repository.run("dvc repro digits_rtm")
    assert set(repository.ran()) == RTM_CHANGED - {"demo/table/tab_digits"}
    assert "Running stage 'digits_mlp'" not in called
    called = repository.run("dvc repro demo")
    assert repository.ran() == ["demo/table/tab_digits"]
    assert "Stage 'digits_mlp' didn't change" in called
    repository.append(MAPPERS, "\n\nCHANGED = 1\n")
    repository.run("dvc repro digits_mlp")
    assert "demo/train/digits_mlp/seed0" in repository.ran()


def test_a_class_of_ones_own_counts(repository: Repository) -> None:
    module = repository.folder / "my_mappers.py"
    write(module, "class Mine:\n    pass\n")
    repository.change("mappers", lambda mappers: mappers.update(mine={"kind": "my_mappers:Mine"}))
    repository.change("demo", lambda demo: demo["digits_mlp"].update(mapper="mine"))
    repository.run("rtm lineage dvc")
    repository.run("dvc repro digits_mlp")
    assert "demo/train/digits_mlp/seed0" in repository.ran()
    write(module, "class Mine:\n    depth = 2\n")
    repository.run("dvc repro digits_mlp")
    assert "demo/train/digits_mlp/seed0" in repository.ran()


def test_a_queued_experiment_runs_what_it_changes(repository: Repository) -> None:
    """It runs in DVC's own workspace and uses the recorded results."""
    repository.run("dvc", "exp", "run", "-q", "--queue", "-S", DEEPER, "-n", "deeper", "demo")
    repository.run("dvc exp run --run-all")
    changed = json.loads(repository.run("dvc params diff --json HEAD deeper"))
    assert changed == {"params/mappers.yaml": {"mappers.digits_rtm.L": {"old": 1, "new": 3, "diff": 2}}}
    metrics = json.loads(repository.run("dvc metrics diff --json HEAD deeper"))
    assert list(metrics) == ["demo/results/digits_rtm/metrics.json"]
    assert repository.planned("demo") == NOTHING  # this workspace did not change


def test_get_a_checkpoint_by_the_address_of_the_repository(recorded: Repository, tmp_path: Path) -> None:
    path = "demo/checkpoints/digits_rtm/seed0.safetensors"
    for name, address in (("by_url", recorded.folder.as_uri()), ("by_path", str(recorded.folder))):
        recorded.run("dvc", "get", "-q", address, path, "-o", str(tmp_path / name))
        assert (tmp_path / name).read_bytes() == (recorded.folder / path).read_bytes()


def test_pull_spares_data_that_was_fetched_here(recorded: Repository) -> None:
    clone = recorded.clone(recorded.folder.with_name("fetched"))
    fetched = clone.folder / "data/cifar10/images.npy"
    write(fetched, "fetched by hand")
    for options in ([], ["--force"]):
        clone.run("dvc", "pull", *options)
        assert fetched.read_text("utf-8") == "fetched by hand"
    clone.run("dvc add -q data/cifar10")
    assert clone.run("git status --short -uall") == "?? data/cifar10.dvc\n"
    shutil.rmtree(fetched.parent)
    clone.run("dvc checkout -q data/cifar10")
    assert fetched.read_text("utf-8") == "fetched by hand"


def test_the_data_of_a_clone_come_with_one_command(recorded: Repository) -> None:
    """data.dvc names the digits alone: no remote has the dataset that was fetched here."""
    clone = recorded.clone(recorded.folder.with_name("of_the_data"))
    assert "dataset" in clone.planned("demo")
    fetched = clone.folder / "data/shells/images.npy"
    write(fetched, "fetched by hand")
    other = clone.folder / "data/digits/notes.txt"
    write(other, "a note")
    clone.run("dvc pull data.dvc")
    assert fetched.read_text("utf-8") == "fetched by hand"
    assert other.read_text("utf-8") == "a note"
    assert "dataset" not in clone.planned("demo")
    assert "train" in clone.planned("demo")
    assert clone.ran() == NOTHING
    assert "up to date" in clone.run("dvc status data.dvc")
    assert clone.run("git status --short") == ""
    clone.run("dvc pull -q")
    assert clone.planned("demo") == NOTHING
    assert "up to date" in clone.run("dvc status")
    assert {Path(path).parent.name for path in outs_of(clone)} == set(DIGITS)


def test_a_prepared_dataset_is_the_one_of_the_remote(recorded: Repository) -> None:
    """A clone that prepared the digits itself can pull over them without --force."""
    clone = recorded.clone(recorded.folder.with_name("prepared"))
    clone.snakemake(*(f"data/{name}/images.npy" for name in DIGITS))
    assert clone.ran() == [f"dataset/{name}" for name in DIGITS]
    clone.run("dvc pull data.dvc")
    assert "up to date" in clone.run("dvc status data.dvc")
    assert "dataset" not in clone.planned("demo")
    assert clone.run("git status --short") == ""


def test_a_changed_dataset_is_named(repository: Repository) -> None:
    """First by its files, then between commits; the old bytes come back with the old commit."""
    labels = repository.folder / "data/digits300/labels.npy"
    before = labels.read_text("utf-8")
    write(labels, "changed")
    assert "modified: data/digits300/labels.npy" in repository.run("dvc data status")
    assert "data/digits300/labels.npy" in repository.run("dvc diff")
    repository.run("dvc checkout -q --force data.dvc")
    assert labels.read_text("utf-8") == before
    repository.change("datasets", lambda datasets: datasets["digits300"].update(first=7))
    repository.snakemake("data/digits300/images.npy")
    repository.run("rtm lineage dvc digits300 --remote desk")
    assert "up to date" in repository.run("dvc status data.dvc")
    committed = repository.run("dvc data status")
    assert "modified: data/digits300/images.npy" in committed.partition("DVC committed changes")[2]
    repository.commit("other images")
    of_digits300 = {path for path in outs_of(repository) if path.startswith("data/digits300/")}
    changed = json.loads(repository.run("dvc diff --json HEAD^ HEAD"))["modified"]
    assert {each["path"] for each in changed if each["path"].startswith("data/")} == of_digits300
    repository.run("git checkout -q HEAD^")
    repository.run("dvc checkout -q data.dvc")
    assert labels.read_text("utf-8") == before


def test_a_lab_adds_a_dataset_to_its_own_remote(repository: Repository) -> None:
    """It gets one line for each file; the scales' remote refuses what may not be passed on."""
    repository.snakemake("data/shells/images.npy")
    assert "stays out of desk" in repository.run("rtm lineage dvc shells --remote desk", fails=True)
    repository.run("rtm lineage dvc shells")
    repository.commit("shells")
    clone = repository.clone(repository.folder.with_name("of_the_lab"))
    clone.run("dvc pull data.dvc")
    assert clone.planned("data/shells/images.npy") == NOTHING
    assert "up to date" in clone.run("dvc status data.dvc")
    lost = outs_of(clone)["data/shells/images.npy"]["md5"]
    (repository.folder.parent / "home/rtm-store/files/md5" / lost[:2] / lost[2:]).unlink()
    clone.run("rtm lineage dvc")
    assert {Path(path).parent.name for path in outs_of(clone)} == set(DIGITS)


def outs_of(repository: Repository) -> dict[str, Any]:
    """The entries of data.dvc by path."""
    return {out["path"]: out for out in yaml.safe_load(repository.text("data.dvc"))["outs"]}


TRIAL = "try/cats/reports/tab_cats.tex"


@pytest.fixture
def tried(repository: Repository) -> Repository:
    """The demo, and a trial that Snakemake has made; git knows nothing of it."""
    choice = Choice("cats", 100, 32, Machine(2, 0), 48)
    recipe.write(repository.folder / "try/cats/params.yaml", choice, "0" * 64, 0.5)
    repository.snakemake(
        TRIAL, *(f"try/cats/reports/figures/fig_cats_{kind}.pdf" for kind in ("samples", "neighbours", "slerp"))
    )
    assert "try/cats/train/cats_rtm/seed0" in repository.ran()
    return repository


def test_a_trial_is_recorded_if_it_is_asked_for(tried: Repository) -> None:
    """After that it is in git and DVC like the demo: a clone has nothing to do, and a change is seen."""
    tried.run("rtm lineage dvc")
    assert "try" not in tried.text("dvc.yaml")
    assert "try" not in tried.run("git status --short")
    assert "choose one of all, try/cats" in tried.run("rtm lineage dvc try/dogs", fails=True)
    words = tried.run("rtm lineage dvc try/cats/").splitlines()[-1].strip()
    tried.run("dvc repro")
    assert tried.ran() == NOTHING
    tried.run("sh", "-c", words)
    tried.run("git commit -q -m 'a trial'")
    assert tried.run("git status --short") == ""
    assert tried.run("git ls-files try") == "try/cats/params.yaml\n"
    tried.run("dvc push -q")
    clone = tried.clone(tried.folder.with_name("of_a_trial"))
    clone.run("dvc pull -q")
    assert clone.planned(TRIAL) == NOTHING
    assert "all true" in clone.run("rtm lineage check")
    assert "up to date" in clone.run("dvc status")
    assert "up to date" in clone.run("dvc repro")
    deeper = clone.folder / "try/cats/params.yaml"
    write(deeper, deeper.read_text("utf-8").replace("H: 8", "H: 16"))
    called = clone.run("dvc repro try-cats")
    assert "try/cats/train/cats_rtm/seed0" in (ran := clone.ran()) and "try/cats/train/cats_mlp/seed0" not in ran
    assert "Running stage 'cats_mlp'" not in called
    metrics = json.loads(clone.run("dvc metrics diff --json"))
    assert list(metrics) == ["try/cats/results/cats_rtm/metrics.json"]
    changed = json.loads(clone.run("dvc params diff --json"))
    assert changed == {"try/cats/params.yaml": {"mappers.cats_rtm.H": {"old": 8, "new": 16, "diff": 8}}}


def test_a_trial_that_a_clone_does_not_have(tried: Repository) -> None:
    """Its parameters were not committed with dvc.yaml."""
    tried.run("rtm lineage dvc try/cats")
    tried.commit("stages alone")
    clone = tried.clone(tried.folder.with_name("without_it"))
    assert "write it anew with `rtm lineage dvc`" in clone.run("dvc repro", fails=True)
    clone.run("rtm lineage dvc")
    assert "try" not in clone.text("dvc.yaml")
