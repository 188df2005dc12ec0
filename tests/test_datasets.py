"""Datasets come out complete and identical, or not at all."""

import io
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from rtm.config import load
from rtm.config.experiments import Dataset
from rtm.data.datasets import Images, prepare, to_pixels, to_unit
from rtm.data.pickles import load_arrays
from rtm.errors import UserError
from rtm.files import digest

PARAMS = Path(__file__).parents[1] / "params"
DIGITS = load("demo", PARAMS).params.datasets["digits"]


def folder_dataset(**changes: object) -> Dataset:
    described = {"title": "Toy", "kind": "folder", "resolution": 8, "count": 3, "licence": "-", "citation": "-"}
    return Dataset.model_validate({**described, **changes})


def png(side: int, value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(file, "PNG")
    return file.getvalue()


def test_digits_are_the_real_ones_to_the_byte(tmp_path: Path) -> None:
    path = tmp_path / "data/digits/images.npy"
    prepare("digits", DIGITS, path)
    assert DIGITS.sha256 == digest(path)
    images = Images(path)
    assert images.pixels.shape == (1797, 8, 8, 3) and images.pixels.max() == 255
    assert images.labels is not None and images.labels[:10].tolist() == list(range(10))
    batch = images.batch(torch.tensor([3, 1]), torch.device("cpu"))
    assert batch.shape == (2, 3, 8, 8) and -1 <= batch.min() < batch.max() <= 1


def test_pixels_survive_the_round_trip() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_pixels(to_unit(pixels)), pixels)


@pytest.mark.parametrize("kind", ["folder", "zip", "tar"])
def test_an_archive_is_read_in_the_order_of_its_names(tmp_path: Path, kind: str) -> None:
    members = {"toy/b/2.png": png(16, 20), "toy/a/1.png": png(16, 10), "toy/b/1.png": png(8, 30), "toy/notes.txt": b"-"}
    source = tmp_path / {"folder": "toy", "zip": "toy.zip", "tar": "toy.tar"}[kind]
    if kind == "zip":
        with zipfile.ZipFile(source, "w") as archive:
            for name, content in members.items():
                archive.writestr(name, content)
    else:
        for name, content in members.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        if kind == "tar":
            with tarfile.open(source, "w") as tar:
                tar.add(tmp_path / "toy", "toy")
    path = tmp_path / "data/toy/images.npy"
    prepare("toy", folder_dataset(resize="bilinear", classes=2), path, source)
    assert np.load(path)[:, 0, 0, 0].tolist() == [10, 30, 20]
    assert np.load(path.with_name("labels.npy")).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"count": 5}, "holds 3 images, but toy has 5"),
        ({"resize": "none", "resolution": 4}, "is 8 x 8 px, not 4 x 4"),
        ({"sha256": "0" * 64}, "came out with sha256"),
    ],
)
def test_a_wrong_source_leaves_no_dataset(tmp_path: Path, changes: dict[str, object], told: str) -> None:
    source = tmp_path / "toy"
    source.mkdir()
    for value in range(3):
        (source / f"{value}.png").write_bytes(png(8, value))
    with pytest.raises(UserError, match=told):
        prepare("toy", folder_dataset(**changes), tmp_path / "data/toy/images.npy", source)
    assert not list(tmp_path.glob("data/toy/*"))


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    source = tmp_path / "toy"
    source.mkdir()
    for value in range(3):
        (source / f"{value}.png").write_bytes(png(8, value)[: 40 if value == 1 else None])
    with pytest.raises(UserError, match=r"1\.png cannot be read"):
        prepare("toy", folder_dataset(), tmp_path / "data/toy/images.npy", source)


def test_what_a_person_must_fetch_is_told(tmp_path: Path) -> None:
    dataset = folder_dataset(url="https://example.org/form", licence="research only")
    with pytest.raises(UserError, match=r"example\.org/form \(research only\).*downloads/toy"):
        prepare("toy", dataset, tmp_path / "data/toy/images.npy")


def test_a_pickle_never_runs_code() -> None:
    class Attack:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("ran",)

    with pytest.raises(UserError, match="wants to run"):
        load_arrays(io.BytesIO(pickle.dumps(Attack())))
    arrays = {b"data": np.arange(3, dtype=np.uint8), b"labels": [1, 2]}
    loaded = load_arrays(io.BytesIO(pickle.dumps(arrays, protocol=2)))
    assert loaded[b"data"].tolist() == [0, 1, 2] and loaded[b"labels"] == [1, 2]


def test_cifar_batches_are_read_as_images(tmp_path: Path) -> None:
    archive, rng = tmp_path / "cifar.tar.gz", np.random.default_rng(0)
    batches = [rng.integers(0, 256, (2, 3072), np.uint8) for _ in range(5)]
    with tarfile.open(archive, "w:gz") as tar:
        for number, data in enumerate(batches, start=1):
            content = pickle.dumps({b"data": data, b"labels": [number, 0]}, protocol=2)
            info = tarfile.TarInfo(f"cifar-10-batches-py/data_batch_{number}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    dataset = folder_dataset(kind="cifar10", resolution=32, count=10, classes=10)
    prepare("cifar10", dataset, tmp_path / "data/cifar10/images.npy", archive)
    pixels = np.load(tmp_path / "data/cifar10/images.npy")
    assert pixels[3, 5, 7].tolist() == [int(batches[1][1][channel * 1024 + 5 * 32 + 7]) for channel in range(3)]
    wrong = dataset.model_copy(update={"md5": "0" * 32})
    with pytest.raises(UserError, match="published md5"):
        prepare("cifar10", wrong, tmp_path / "data/cifar10/images.npy", archive)
