"""`rtm fetch` of a dataset, what is here, and DVC's part, as a user sees them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import ROOT, fake_results, tool_server
from support.archives import flat, write_folder, write_zip
from support.standin import Repository

from rtm.cli import data as data_cli
from rtm.cli import main as cli
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.readers import read_json
from rtm.data.prepare import prepare
from rtm.lineage.freshness import Freshness
from rtm.lineage.recording import run
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network
from rtm.stages.train import Train

IMAGES = Path("data/shells/images.npy")
RECEIPT = Path("lineage/dataset/shells.json")
DOWNLOADS = Path("downloads")
SIZE = "3 images of 256 x 256 px"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A workspace with three images of shells."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    for name, old, new in (("datasets", "count: 64\n", "count: 3\n"), ("protocols", "k: 3\n", "k: 1\n")):
        path = tmp_path / f"params/{name}.yaml"
        path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    monkeypatch.chdir(tmp_path)
    return load("paper")


def archive(folder: Path, *values: int) -> Path:
    folder.mkdir(exist_ok=True)
    files = {f"few-shot-images/shells/img/{value}.png": flat(20, value) for value in values}
    return write_zip(folder / "few-shot-images.zip", files)


def fetch(config: Config, source: Path | None = None) -> None:
    run(Dataset().job(config, dataset="shells"), source=source)
    print(data_cli.described(config, "shells"))


def test_a_person_fetches_checks_and_looks(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"needs a person: get few-shot-images\.zip .* put it at downloads/few-shot-"):
        fetch(config)
    assert not RECEIPT.exists()
    archive(DOWNLOADS, 1, 2, 3)
    fetch(config)
    output = capsys.readouterr()
    assert "nobody publishes a checksum of few-shot-images.zip" in output.err
    assert "rtm fetch --pin shells" in output.err
    assert output.out == f"{IMAGES}: {SIZE}; version it with `rtm lineage dvc shells`\n"
    known = {"few-shot-images.zip": digest("downloads/few-shot-images.zip"), "images.npy": digest(IMAGES)}
    assert read_json(RECEIPT)["made"]["sha256"] == known
    data_cli.data(config, "check", [])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(config.params.datasets)
    assert f"{'shells':<18} good      {SIZE}" in lines  # the column is as wide as cifar10_horse_rest
    assert f"{'cifar10':<18} not here  `rtm fetch cifar10`" in lines
    data_cli.data(config, "show", ["shells"])
    shown = capsys.readouterr().out
    for part in (
        "Shells (shells)",
        "3 of 256 x 256 px, RGB, 0.6 MB",
        "few-shot-images.zip",
        "web images",
        "Liu et al.",
    ):
        assert part in shown
    with Image.open(Path("galleries/data/shells.png")) as sheet:
        assert sheet.size == (3 * 256 + 20, 256)
        assert sheet.getpixel((300, 100)) == (2, 2, 2)
    with pytest.raises(UserError, match="Name a dataset"):
        data_cli.data(config, "show", [])
    with pytest.raises(UserError, match=r"There is no dataset named 'shell'\. Did you mean shells"):
        data_cli.data(config, "check", ["shell"])


def test_the_receipt_remembers_the_source(config: Config) -> None:
    archive(DOWNLOADS, 1, 2, 3)
    fetch(config)
    receipt = RECEIPT.read_text("utf-8")
    before = digest(IMAGES)
    archive(DOWNLOADS, 4, 5, 6)
    with pytest.raises(UserError, match=r"few-shot-images\.zip is not the original"):
        fetch(config)
    with pytest.raises(UserError, match=r"shells: downloads/few-shot-images\.zip is not the original"):
        data_cli.data(config, "check", ["shells"])
    other = write_folder(Path("other"), {f"{value}.png": flat(20, value) for value in (4, 5, 6)})
    with pytest.raises(UserError, match="of its receipt"):
        fetch(config, other)
    assert RECEIPT.read_text("utf-8") == receipt
    assert digest(IMAGES) == before
    RECEIPT.unlink()  # a user does this if the data should change
    fetch(config, other)
    assert np.load(IMAGES)[0, 0, 0, 0] == 4


def test_check_reads_what_the_receipt_signs(config: Config) -> None:
    archive(DOWNLOADS, 1, 2, 3)
    fetch(config)
    other = archive(Path("other"), 7, 8, 9)
    prepare("shells", config.params.datasets["shells"], IMAGES, other)  # complete, but not the fetched data
    with pytest.raises(UserError, match=r"images\.npy is not the recorded one.*dvc checkout"):
        data_cli.data(config, "check", [])
    IMAGES.unlink()
    with pytest.raises(UserError, match="is missing"):
        data_cli.data(config, "check", [])


def test_what_data_dvc_names_can_be_pulled(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    Path("data.dvc").write_text("outs:\n- {path: data/digits/images.npy}\n", "utf-8")
    with pytest.raises(UserError, match="Not here: digits, cifar10"):
        data_cli.data(config, "check", ["digits", "cifar10"])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "digits      not here  `rtm fetch digits`, or `dvc pull data.dvc`",
        "cifar10     not here  `rtm fetch cifar10`",
    ]


@pytest.mark.parametrize(("old", "new"), [('"count": 3', '"count": 4'), ('"sha256": "', '"sha256": "0')])
def test_changed_facts_are_no_fetched_dataset(config: Config, old: str, new: str) -> None:
    """A training writes the sha256 of meta.json into its weights: it must be the one that was signed."""
    archive(DOWNLOADS, 1, 2, 3)
    fetch(config)
    meta = IMAGES.with_name("meta.json")
    text = meta.read_text("utf-8")
    assert text.count(old) == 1
    meta.write_text(text.replace(old, new), "utf-8")
    with pytest.raises(UserError, match=r"meta\.json is not the recorded one"):
        data_cli.data(config, "check", ["shells"])
    training = Train().job(config, experiment="shells_imle_rtm", seed=0)
    with pytest.raises(UserError, match=r"needs dataset/shells: data/shells/meta\.json is not the recorded one"):
        run(training)
    assert not training.first.exists()


def test_a_fetch_replaces_dvcs_links_and_spares_its_cache(config: Config) -> None:
    archive(DOWNLOADS, 1, 2, 3)
    IMAGES.parent.mkdir(parents=True)
    for name, link in (("images.npy", Path.symlink_to), ("meta.json", Path.hardlink_to)):
        cached = Path("cache") / name
        cached.parent.mkdir(exist_ok=True)
        cached.write_bytes(b"old")
        cached.chmod(0o444)
        link(IMAGES.with_name(name), cached.absolute())
    fetch(config)
    assert {path.read_bytes() for path in Path("cache").iterdir()} == {b"old"}
    for path in IMAGES.parent.iterdir():
        assert not path.is_symlink()
        assert path.stat().st_nlink == 1
        assert path.stat().st_mode & 0o200


def test_the_command_line_takes_the_words(
    config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive(DOWNLOADS, 1, 2, 3)
    for words in (["fetch", "shells", "--wait"], ["fetch", "shells", "--show"], ["fetch", "shells", "--check"]):
        monkeypatch.setattr("sys.argv", ["rtm", *words])
        cli.main()
    assert capsys.readouterr().out.splitlines()[-1] == f"shells      good      {SIZE}"


def test_a_network_that_is_trained_here_has_no_source(config: Config) -> None:
    fake_results.write_outputs(Dataset().job(config, dataset="digits"))
    with pytest.raises(UserError, match="digit_classifier is trained here on the digits; leave --source out"):
        run(Network().job(config, network="digit_classifier"), source=Path("/nope"))


def test_what_is_asked_for_by_name_must_be_here(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    data_cli.data(config, "check", [])
    with pytest.raises(UserError, match="Not here: digits, cat; the lines above say how to get it"):
        data_cli.data(config, "check", ["digits", "cat"])
    smoke = load("smoke")
    with pytest.raises(UserError, match="Not here: cat"):
        data_cli.data(smoke, "check", ["cat"])
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "digits      not here  `rtm fetch digits`",
        "cat         not here  `rtm fetch cat`",
        "cat         not here  `rtm fetch cat --scale smoke`",
    ]


@pytest.fixture
def warm_dvc() -> Iterator[None]:
    with tool_server.tools("dvc"):
        yield


@pytest.mark.slow(seconds=6)
@pytest.mark.usefixtures("warm_dvc")
def test_dvc_keeps_what_is_absent_here_and_pulls_one(tmp_path: Path) -> None:
    """Two machines have different datasets and share a store."""
    first = Repository(tmp_path / "first")
    (first.folder / "bin").mkdir(parents=True)
    tool_server.write_client(first.folder / "bin/dvc")
    first.run("git", "init", "-q")
    first.run("dvc", "init", "-q")
    first.run("dvc", "remote", "add", "-q", "-d", "store", str(tmp_path / "store"))
    write_folder(first.folder / "data", {"one/images.npy": b"one"})
    first.run("dvc", "add", "-q", "data")
    write_folder(first.folder / "data", {"two/images.npy": b"two"})
    first.run("dvc", "add", "-q", "data/two")
    first.run("dvc", "push", "-q")
    first.run("git", "add", ".")
    first.run("git", "commit", "-qm", "two datasets")
    first.run("git", "clone", "-q", str(first.folder), str(tmp_path / "second"))
    second = Repository(tmp_path / "second")
    second.run("dvc", "pull", "-q", "data/two")
    assert [path.name for path in (second.folder / "data").iterdir()] == ["two"]
    write_folder(second.folder / "data", {"three/images.npy": b"three"})
    second.run("dvc", "add", "-q", "data/three")
    assert "nfiles: 3" in (second.folder / "data.dvc").read_text("utf-8")


def test_a_pin_is_one_line_and_leaves_the_fetch_fresh(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("params/datasets.yaml").read_text("utf-8")
    with pytest.raises(UserError, match="dataset/shells is stale: it was never made"):
        data_cli.data(config, "pin", ["shells"])
    archive(DOWNLOADS, 1, 2, 3)
    fetch(config)
    data_cli.data(config, "pin", ["shells"])
    after = Path("params/datasets.yaml").read_text("utf-8")
    line = f"    sha256: {digest(IMAGES)}\n"
    assert after.replace(line, "", 1) == before
    assert after.count(line) == 1
    pinned = load("paper")
    assert pinned.params.datasets["shells"].sha256 == digest(IMAGES)
    assert Freshness().is_fresh(Dataset().job(pinned, dataset="shells"))
    receipt = RECEIPT.read_text("utf-8")
    data_cli.data(pinned, "pin", ["shells"])  # a second time nothing changes
    assert Path("params/datasets.yaml").read_text("utf-8") == after
    assert RECEIPT.read_text("utf-8") == receipt
    RECEIPT.unlink()
    shutil.rmtree(DOWNLOADS)
    archive(DOWNLOADS, 4, 5, 6)
    with pytest.raises(UserError, match=r"images\.npy of shells came out with sha256 .* params/datasets\.yaml"):
        fetch(pinned)
    smoke = load("smoke")
    with pytest.raises(UserError, match="leave --scale out"):
        data_cli.data(smoke, "pin", ["shells"])
