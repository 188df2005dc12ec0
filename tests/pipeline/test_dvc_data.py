"""data.dvc names the prepared datasets whose bytes a remote of DVC holds, and no others."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import PARAMS, ROOT

from rtm.config import load
from rtm.core.errors import UserError
from rtm.core.files import write_json, write_text
from rtm.lineage import cache
from rtm.lineage.freshness import Freshness
from rtm.lineage.recording import recorded
from rtm.pipeline import dvc_data
from rtm.stages.base import Job
from rtm.stages.dataset import Dataset


def prepared(name: str) -> Job:
    """A dataset of a few bytes with a true receipt."""
    job = Dataset().job(load(), dataset=name)
    with recorded(job):
        for path in job.outputs.values():
            write_text(path, str(path))
    return job


def named() -> dict[str, Any]:
    """The entries of data.dvc by path."""
    return {out["path"]: out for out in dvc_data.listed()}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two remotes: a folder of its own, and the default one beside it."""
    here = tmp_path / "here"
    shutil.copytree(PARAMS, here / "params")
    monkeypatch.chdir(here)
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["dvc", "init", "-q"], check=True)
    write_text(here / ".dvc/config", CONFIG)
    cache.folder.cache_clear()
    cache.remote.cache_clear()
    return here


CONFIG = """\
[core]
    remote = store
['remote "store"']
    url = ../../store
['remote "desk"']
    url = ../desk/store
"""


def test_only_what_a_remote_holds_is_named() -> None:
    digits = prepared("digits")
    prepared("digits300")
    dvc_data.write()
    assert not dvc_data.FILE.exists()
    dvc_data.send(["digits"], "desk")
    dvc_data.write()
    assert named().keys() == {str(path) for path in digits.outputs.values()}
    receipt = json.loads(digits.receipt.read_text("utf-8"))
    for path, recorded_file in receipt["outputs"].items():
        assert named()[path] == {"path": path, "hash": "md5", "remote": "desk", **recorded_file}
        md5 = recorded_file["md5"]
        assert Path(f"desk/store/files/md5/{md5[:2]}/{md5[2:]}").read_text("utf-8") == path
    md5 = receipt["outputs"]["data/digits/labels.npy"]["md5"]
    Path(f"desk/store/files/md5/{md5[:2]}/{md5[2:]}").unlink()
    dvc_data.write()
    assert not dvc_data.FILE.exists()


def test_what_may_not_be_passed_on_stays_out_of_the_repository(capsys: pytest.CaptureFixture[str]) -> None:
    prepared("shells")
    with pytest.raises(UserError, match=r"shells stays out of desk.*its licence is web images, research use"):
        dvc_data.send(["shells"], "desk")
    dvc_data.send(["shells"], None)
    assert "shells is in the remote store; its licence: web images" in capsys.readouterr().out
    dvc_data.write()
    assert set(named()) == {"data/shells/images.npy", "data/shells/meta.json"}
    assert all("remote" not in out for out in named().values())  # DVC's default, whatever its name is elsewhere
    shutil.copytree("../store", "desk/store")
    shutil.rmtree("../store")
    dvc_data.write()
    assert not dvc_data.FILE.exists()
    Path(".dvc/config").write_text(CONFIG.replace("remote = store", "remote = desk"), "utf-8")
    with pytest.raises(UserError, match="shells stays out of desk"):
        dvc_data.send(["shells"], None)


def test_only_fresh_datasets_are_sent(folder: Path) -> None:
    with pytest.raises(UserError, match=r"\.dvc/config has no remote nowhere; choose one of store, desk"):
        dvc_data.send(["digits"], "nowhere")
    with pytest.raises(UserError, match="dataset/digits is stale: it was never made"):
        dvc_data.send(["digits"], "desk")
    job = prepared("digits")
    write_text(job.first, "changed")
    with pytest.raises(UserError, match=r"images\.npy is not the recorded one"):
        dvc_data.send(["digits"], "desk")
    assert not (folder / "desk").exists()


def test_a_remote_that_does_not_answer_takes_no_line_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    prepared("celebahq")
    dvc_data.send(["celebahq"], None)
    dvc_data.write()
    before = named()
    prepared("afhq")

    def silent(*_: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr("dvc.data_cloud.DataCloud.get_remote_odb", silent)
    cache.remote.cache_clear()
    dvc_data.write()
    assert named() == before
    assert "is not asked for results: ConnectionError" in capsys.readouterr().err
    with pytest.raises(UserError, match="The remote store did not take afhq"):
        dvc_data.send(["afhq"], None)


def test_a_dataset_with_a_file_of_its_own_or_other_values_is_not_named() -> None:
    """DVC refuses two files that name the same output."""
    job = prepared("digits")
    dvc_data.send(["digits"], "desk")
    write_text(Path("data/digits.dvc"), "outs: []\n")
    dvc_data.write()
    assert not dvc_data.FILE.exists()
    Path("data/digits.dvc").unlink()
    receipt = json.loads(job.receipt.read_text("utf-8"))
    receipt["parts"]["params"]["count"] = 2
    write_json(job.receipt, receipt)
    dvc_data.write()
    assert not dvc_data.FILE.exists()


@pytest.mark.parametrize("text", ["outs: 3\n", "- 1\n", "outs: {\n", "outs:\n- data\n"])
def test_a_damaged_file_is_written_anew(text: str) -> None:
    prepared("digits")
    dvc_data.send(["digits"], "desk")
    write_text(dvc_data.FILE, text)
    dvc_data.write()
    assert len(named()) == 3


def test_the_repository_passes_on_what_may_be_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its remote has all bytes that data.dvc names, as git keeps them, and no images of another licence."""
    monkeypatch.chdir(ROOT)
    config = load()
    datasets = config.params.datasets
    freshness = Freshness()
    outs = yaml.safe_load((ROOT / "data.dvc").read_text("utf-8"))["outs"]
    assert {Path(out["path"]).parent.name for out in outs} == {"digits", "digits300", "digits_rest"}
    for out in outs:
        path = Path(out["path"])
        job = Dataset().job(config, dataset=path.parent.name)
        receipt = freshness.receipt(job) or {}
        assert freshness.matches(job, receipt)  # otherwise a clone prepares it again
        assert receipt["outputs"][out["path"]] == {"md5": out["md5"], "size": out["size"]}
        assert datasets[path.parent.name].licence.startswith("CC BY 4.0")
        kept = Path(f"desk/store/files/md5/{out['md5'][:2]}/{out['md5'][2:]}")
        assert kept.stat().st_size == out["size"]
    stored = {path.parent.name + path.name for path in Path("desk/store/files/md5").glob("*/*")}
    closed = [name for name, dataset in datasets.items() if not dataset.licence.startswith(dvc_data.FREE)]
    for name in closed:
        file = Path(f"lineage/dataset/{name}.json")
        outputs = json.loads(file.read_text("utf-8"))["outputs"] if file.exists() else {}
        assert not stored & {each["md5"] for each in outputs.values()}
