"""dvc.yaml of a scale with its results in git: each stage, and the checkpoints of some experiments."""

import json
from typing import Any

import pytest
import yaml
from support import ROOT
from support.workspace import git

from rtm.config import load
from rtm.pipeline.dvc import Listing, render


def stages(*names: str) -> dict[str, Any]:
    return dict(yaml.safe_load(render(Listing(frozenset(names))))["stages"])


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_what_is_not_made_is_not_listed() -> None:
    found = stages("desk_train@desk_rtm", "desk_measure@desk_mlp24", "desk_tab_desk")
    assert found.keys() == {"fingerprints", "desk_train", "desk_measure", "desk_tab_desk"}
    assert found["desk_train"]["foreach"].keys() == {"desk_rtm"}


def test_only_some_checkpoints_are_kept_in_the_folder_that_every_clone_has() -> None:
    found, kept = stages("desk"), load("desk").scale.kept
    assert kept and found["desk_train"]["foreach"].keys() == set(kept)
    assert {*found["desk_train"]["foreach"], *found["desk_measure"]["foreach"]} == set(load("desk").experiments)
    (out,) = found["desk_train"]["do"]["outs"]
    assert out == {"desk/checkpoints/${key}": {"persist": True, "remote": "desk"}}
    assert "outs" not in found["desk_measure"]["do"] and found["desk_measure"]["do"]["metrics"]
    assert found["desk_figures"]["outs"] == [{"desk/reports/figures": {"persist": True, "cache": False}}]
    assert all(dep.startswith("desk/reports/") for dep in found["desk"]["deps"])
    assert "desk_shared" not in found  # git has the receipts of the images


def test_a_clone_pulls_everything_that_is_listed_without_a_remote_of_its_own() -> None:
    outs = [out for stage in stages("desk").values() for out in stage.get("do", stage).get("outs", [])]
    assert outs and all(isinstance(out, dict) for out in outs)
    assert all(options.get("remote") == "desk" or options["cache"] is False for out in outs for options in out.values())


def test_what_git_lists_of_the_desk_is_recorded_and_can_be_pulled() -> None:
    """In the commit that a clone gets. `dvc pull` fails if a stage has no record or if weights are not in a store."""
    listed, recorded = (yaml.safe_load(git("show", f"HEAD:{name}"))["stages"] for name in ("dvc.yaml", "dvc.lock"))
    keys = {name: stage.get("foreach") for name, stage in listed.items() if name.startswith("desk_")}
    names = {f"{name}@{key}" if key else name for name, each in keys.items() for key in each or [""]}
    assert names and not names - recorded.keys()
    stored, weights = set(git("ls-files", "desk/store").splitlines()), 0
    for out in (out for name in names for out in recorded[name].get("outs", []) if "checkpoints" in out["path"]):
        assert kept_as(out["md5"]) in stored
        files = json.loads((ROOT / kept_as(out["md5"])).read_text())
        assert all(kept_as(file["md5"]) in stored for file in files)
        weights += len(files)
    assert weights == 6  # two mappers, three seeds


def kept_as(md5: str) -> str:
    return f"desk/store/files/md5/{md5[:2]}/{md5[2:]}"
