"""`rtm fetch` of a dataset, `rtm data`, and DVC's part, as a user sees them."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support import ROOT, tool_server
from support.archives import flat, write_folder, write_zip
from support.standin import Repository

from rtm.cli import data as data_cli
from rtm.cli import main as cli
from rtm.config import Config, load
from rtm.core.errors import UserError
from rtm.core.files import digest, read_json
from rtm.core.layout import Layout
from rtm.data.prepare import prepare
from rtm.lineage.receipts import Ledger
from rtm.pipeline.graph import jobs

LAYOUT = Layout(Path(), Path())
IMAGES = LAYOUT.images("shells")
RECEIPT = LAYOUT.receipt("fetch", "shells")
SIZE = "3 images of 256 x 256 px"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A workspace with three images of shells."""
    shutil.copytree(ROOT / "params", tmp_path / "params")
    for name, old, new in (("datasets", "count: 64\n", "count: 3\n"), ("protocols", "k: 3\n", "k: 1\n")):
        path = tmp_path / f"params/{name}.yaml"
        path.write_text(path.read_text().replace(old, new))
    monkeypatch.chdir(tmp_path)
    return load("paper")


def archive(folder: Path, *values: int) -> Path:
    folder.mkdir(exist_ok=True)
    files = {f"few-shot-images/shells/img/{value}.png": flat(20, value) for value in values}
    return write_zip(folder / "few-shot-images.zip", files)


def fetch(config: Config, source: Path | None = None) -> None:
    data_cli.fetch(config, LAYOUT, "shells", source, wait=False)


def test_a_person_fetches_checks_and_looks(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"needs a person: get few-shot-images\.zip .* put it at downloads/few-shot-"):
        fetch(config)
    assert not RECEIPT.exists()
    archive(LAYOUT.downloads(), 1, 2, 3)
    fetch(config)
    output = capsys.readouterr()
    assert "nobody publishes a checksum of few-shot-images.zip" in output.err and "rtm data pin shells" in output.err
    assert output.out == f"{IMAGES}: {SIZE}; version it with `dvc add data/shells`\n"
    known = {"few-shot-images.zip": digest("downloads/few-shot-images.zip"), "images.npy": digest(IMAGES)}
    assert read_json(RECEIPT)["made"]["sha256"] == known
    data_cli.data(config, LAYOUT, "check", [])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(config.params.datasets)
    assert f"{'shells':<18} good      {SIZE}" in lines  # the column is as wide as cifar10_horse_rest
    assert f"{'cifar10':<18} not here  `rtm fetch cifar10`, or `dvc pull data/cifar10`" in lines
    data_cli.data(config, LAYOUT, "show", ["shells"])
    shown = capsys.readouterr().out
    for part in (
        "Shells (shells)",
        "3 of 256 x 256 px, RGB, 0.6 MB",
        "few-shot-images.zip",
        "web images",
        "Liu et al.",
    ):
        assert part in shown
    with Image.open(LAYOUT.contact_sheet("shells")) as sheet:
        assert sheet.size == (3 * 256 + 20, 256)
        assert sheet.getpixel((300, 100)) == (2, 2, 2)
    with pytest.raises(UserError, match="Name a dataset"):
        data_cli.data(config, LAYOUT, "show", [])
    with pytest.raises(UserError, match=r"There is no dataset named 'shell'\. Did you mean shells"):
        data_cli.data(config, LAYOUT, "check", ["shell"])


def test_the_receipt_remembers_the_source(config: Config) -> None:
    archive(LAYOUT.downloads(), 1, 2, 3)
    fetch(config)
    receipt, before = RECEIPT.read_text(), digest(IMAGES)
    archive(LAYOUT.downloads(), 4, 5, 6)
    with pytest.raises(UserError, match=r"few-shot-images\.zip is not the original"):
        fetch(config)
    with pytest.raises(UserError, match=r"shells: downloads/few-shot-images\.zip is not the original"):
        data_cli.data(config, LAYOUT, "check", ["shells"])
    other = write_folder(Path("other"), {f"{value}.png": flat(20, value) for value in (4, 5, 6)})
    with pytest.raises(UserError, match="of its receipt"):
        fetch(config, other)
    assert RECEIPT.read_text() == receipt and digest(IMAGES) == before
    RECEIPT.unlink()  # a user does this if the data should change
    fetch(config, other)
    assert np.load(IMAGES)[0, 0, 0, 0] == 4


def test_check_reads_what_the_receipt_signs(config: Config) -> None:
    archive(LAYOUT.downloads(), 1, 2, 3)
    fetch(config)
    other = archive(Path("other"), 7, 8, 9)
    prepare("shells", config.params.datasets["shells"], IMAGES, other)  # complete, but not the fetched data
    with pytest.raises(UserError, match=r"images\.npy is not the recorded one.*dvc checkout"):
        data_cli.data(config, LAYOUT, "check", [])
    IMAGES.unlink()
    with pytest.raises(UserError, match="is missing"):
        data_cli.data(config, LAYOUT, "check", [])


def test_a_fetch_replaces_dvcs_links_and_spares_its_cache(config: Config) -> None:
    archive(LAYOUT.downloads(), 1, 2, 3)
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
        assert not path.is_symlink() and path.stat().st_nlink == 1 and path.stat().st_mode & 0o200


def test_the_command_line_takes_the_words(
    config: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive(LAYOUT.downloads(), 1, 2, 3)
    for words in (["fetch", "shells", "--wait"], ["data", "show", "shells"], ["data", "check", "shells"]):
        monkeypatch.setattr("sys.argv", ["rtm", *words])
        cli.main()
    assert capsys.readouterr().out.splitlines()[-1] == f"shells      good      {SIZE}"


def test_what_is_asked_for_by_name_must_be_here(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    data_cli.data(config, LAYOUT, "check", [])
    with pytest.raises(UserError, match="Not here: digits, cat; the lines above say how to get it"):
        data_cli.data(config, LAYOUT, "check", ["digits", "cat"])
    smoke = load("smoke")
    with pytest.raises(UserError, match="Not here: cat"):
        data_cli.data(smoke, smoke.layout, "check", ["cat"])
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "digits      not here  `rtm fetch digits`, or `dvc pull data/digits`",
        "cat         not here  `rtm fetch cat`, or `dvc pull data/cat`",
        "cat         not here  `rtm fetch cat --scale smoke`, or `dvc pull smoke/data/cat`",
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
    assert "nfiles: 3" in (second.folder / "data.dvc").read_text()


def test_a_pin_is_one_line_and_leaves_the_fetch_fresh(config: Config, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path("params/datasets.yaml").read_text()
    with pytest.raises(UserError, match="fetch/shells is stale: it was never made"):
        data_cli.data(config, LAYOUT, "pin", ["shells"])
    archive(LAYOUT.downloads(), 1, 2, 3)
    fetch(config)
    data_cli.data(config, LAYOUT, "pin", ["shells"])
    after = Path("params/datasets.yaml").read_text()
    line = f"    sha256: {digest(IMAGES)}\n"
    assert after.replace(line, "", 1) == before and after.count(line) == 1
    pinned = load("paper")
    assert pinned.params.datasets["shells"].sha256 == digest(IMAGES)
    assert Ledger().fresh(jobs(pinned)["fetch/shells"])
    receipt = RECEIPT.read_text()
    data_cli.data(pinned, LAYOUT, "pin", ["shells"])  # a second time nothing changes
    assert Path("params/datasets.yaml").read_text() == after and RECEIPT.read_text() == receipt
    RECEIPT.unlink()
    shutil.rmtree(LAYOUT.downloads())
    archive(LAYOUT.downloads(), 4, 5, 6)
    with pytest.raises(UserError, match=r"images\.npy of shells came out with sha256 .* params/datasets\.yaml"):
        fetch(pinned)
    smoke = load("smoke")
    with pytest.raises(UserError, match="leave --scale out"):
        data_cli.data(smoke, smoke.layout, "pin", ["shells"])
