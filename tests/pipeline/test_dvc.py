"""dvc.yaml of a scale with its results in git: each stage, and the checkpoints of some experiments."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT
from support.workspace import git

from rtm.config import load
from rtm.pipeline import dvc
from rtm.pipeline.dvc import render
from rtm.pipeline.dvc_stages import DvcStage
from rtm.stages.summary import Summary


def stages(*names: str, whole: bool = False) -> dict[str, Any]:
    return dict(yaml.safe_load(render(set(names), whole))["stages"])


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DvcStage, "is_made", lambda stage: False)


@pytest.mark.usefixtures("nothing_made")
def test_what_is_not_made_is_not_listed() -> None:
    assert stages() == {}
    assert stages("desk_rtm").keys() == {"code", "desk_rtm"}
    assert stages("tab_desk").keys() == {"code", "tab_desk", "desk_rtm", "desk_mlp8"}  # and what it reads


def test_only_some_checkpoints_are_kept_in_the_folder_that_every_clone_has() -> None:
    config = load("desk")
    listed = stages("desk")
    kept = [name for name in config.experiments if "outs" in listed[name]]
    assert kept == list(config.scale.kept or ())
    for name in config.experiments:
        assert listed[name]["metrics"]
    assert listed["desk_rtm"]["outs"] == [{"desk/checkpoints/desk_rtm": {"persist": True, "remote": "desk"}}]
    assert listed["desk_figures"]["outs"] == [{"desk/reports/figures": {"persist": True, "cache": False}}]
    assert all(dep.startswith("desk/reports/") for dep in listed["desk"]["deps"])
    assert "desk_images" not in listed  # git has the receipts of the images


def test_a_clone_pulls_everything_that_is_listed_without_a_remote_of_its_own() -> None:
    outs = [out for stage in stages("desk").values() for out in stage.get("outs", [])]
    assert len(outs) > 2
    for out in outs:
        for options in out.values():
            assert options.get("remote") == "desk" or options["cache"] is False


def test_a_stage_shows_the_keys_that_it_reads() -> None:
    stage = stages("desk")["desk_rtm"]
    keys = {file: names for row in stage["params"] for file, names in row.items()}
    assert keys["params/desk.yaml"] == ["desk.desk_rtm"]
    assert keys["params/mappers.yaml"] == ["mappers.desk_rtm"]
    assert keys["lineage/code.yaml"] == ["desk_rtm"]


def test_the_code_of_each_stage_is_a_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dvc, "CODE", tmp_path / "code.yaml")
    dvc.write_code()
    hashes = yaml.safe_load((tmp_path / "code.yaml").read_text("utf-8"))
    assert {"desk_rtm", "desk_mlp8", "tab_desk", "cifar10_imle_rtm", "digits_rtm"} <= hashes.keys()
    assert all(len(value) == 16 for value in hashes.values())
    assert hashes["desk_rtm"] != hashes["desk_stylegan2_ada_rtm"]


def test_what_git_lists_of_the_desk_is_recorded_and_can_be_pulled() -> None:
    """In the commit that a clone gets. `dvc pull` fails if a stage has no record or if weights are not in a store."""
    listed, recorded = (yaml.safe_load(git("show", f"HEAD:{name}"))["stages"] for name in ("dvc.yaml", "dvc.lock"))
    keys = {name: stage.get("foreach") for name, stage in listed.items() if name.startswith("desk_")}
    names = {f"{name}@{key}" if key else name for name, each in keys.items() for key in each or [""]}
    assert names
    assert not names - recorded.keys()
    stored = set(git("ls-files", "desk/store").splitlines())
    weights = 0
    for out in (out for name in names for out in recorded[name].get("outs", []) if "checkpoints" in out["path"]):
        assert kept_as(out["md5"]) in stored
        files = json.loads((ROOT / kept_as(out["md5"])).read_text("utf-8"))
        assert all(kept_as(file["md5"]) in stored for file in files)
        weights += len(files)
    assert weights == 6  # two mappers, three seeds


def kept_as(md5: str) -> str:
    return f"desk/store/files/md5/{md5[:2]}/{md5[2:]}"


def test_dvc_yaml_declares_what_tables_read() -> None:
    every = stages(whole=True)
    config = load("paper")
    for name, table in config.tables.items():
        summaries = {str(Summary().path(config, "metrics", experiment=each)) for each in table.experiments()}
        assert summaries <= set(every[name]["deps"])


def test_nobody_keeps_temporary_files() -> None:
    for name in (".gitignore", ".dvcignore"):
        assert ".*.tmp" in Path(name).read_text("utf-8").splitlines()


def test_dvc_yaml_is_up_to_date() -> None:
    dvc.check()
