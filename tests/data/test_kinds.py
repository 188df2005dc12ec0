"""Each kind of dataset gives its images in its order; a wrong or damaged source is named."""

import hashlib
import io
import os
import pickle
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
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

from rtm.core.errors import UserError
from rtm.core.files import digest, write_json
from rtm.core.readers import read_json
from rtm.data.check import problems
from rtm.data.datasets import Images, Pixels
from rtm.data.prepare import prepare


def test_parts_of_the_digits_are_those_that_they_say(tmp_path: Path) -> None:
    pixels = {}
    for name in ("digits", "digits300", "digits_rest"):
        prepare(name, DATASETS[name], tmp_path / name / "images.npy")
        assert digest(tmp_path / name / "images.npy") == DATASETS[name].sha256
        pixels[name] = np.load(tmp_path / name / "images.npy")
    assert np.array_equal(np.concatenate([pixels["digits300"], pixels["digits_rest"]]), pixels["digits"])


# CIFAR-10


def test_cifar_is_the_same_from_both_sources(tmp_path: Path) -> None:
    pixels = noise(10, 3072)
    labels = [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    expected = pixels.reshape(10, 3, 32, 32).transpose(0, 2, 3, 1)
    dataset = small("cifar10", 10)
    for number, files in enumerate((cifar_batches(pixels, labels), cifar_sheets(pixels, labels))):
        path = tmp_path / f"{number}/images.npy"
        prepare("cifar10", dataset, path, write_tar(tmp_path / f"{number}.tgz", files))
        images = Images(path)
        test = Images(path.with_name("test_images.npy"))
        assert np.array_equal(images.pixels, expected)
        assert np.array_equal(test.pixels, 255 - expected[:2])
        assert images.labels is not None
        assert images.labels.tolist() == labels
        assert test.labels is not None
        assert test.labels.tolist() == labels[:2]
        assert problems(dataset, path) == []
    prepare("cifar10", small("cifar10", 10, test=None), path, tmp_path / "1.tgz")
    assert left(path) == ["images.npy", "labels.npy", "meta.json"]


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
        images = Images(path.with_name(name))
        assert images.labels is not None
        for number, md5 in enumerate(published):
            batch = slice(10_000 * number, 10_000 * (number + 1))
            planes = images.pixels[batch].transpose(0, 3, 1, 2).reshape(10_000, -1)
            rows = np.concatenate([images.labels[batch, None].astype(np.uint8), planes], axis=1)
            assert hashlib.md5(rows.tobytes()).hexdigest() == md5


def test_damaged_batches_of_cifar_are_found(images: Path, tmp_path: Path) -> None:
    files = dict(cifar_batches(noise(10, 3072), [0] * 10))
    for content in (b"nonsense", pickle.dumps({b"data": 3}), pickle.dumps({b"data": noise(2, 3072), b"labels": [1]})):
        source = write_tar(tmp_path / "x.tar.gz", files | {"cifar-10-batches-py/data_batch_3": content})
        with pytest.raises(UserError, match="damaged"):
            prepare("cifar10", small("cifar10", 10), images, source)
    assert left(images) == []


def test_unpacked_pickles_are_refused(images: Path, tmp_path: Path) -> None:
    """Nothing could check them: checksums are of the archive."""
    source = write_folder(tmp_path / "cifar", dict(cifar_batches(noise(10, 3072), [0] * 10)))
    with pytest.raises(UserError, match=r"holds unpacked pickles, .*; give the archive itself, cifar-10-python"):
        prepare("cifar10", small("cifar10", 10), images, source)


# subsets


def subset(
    tmp_path: Path,
    pixels: Pixels,
    labels: Pixels,
    order: list[int],
    **changes: object,
) -> Images:
    whole = tmp_path / "whole/images.npy"
    whole.parent.mkdir(exist_ok=True)
    np.save(whole, pixels[order])
    np.save(whole.with_name("labels.npy"), labels[order])
    write_json(whole.with_name("meta.json"), {"sha256": digest(whole)})
    dataset = toy(kind="subset", of="whole", resolution=4, **changes)
    prepare("part", dataset, tmp_path / "part/images.npy", whole)
    return Images(tmp_path / "part/images.npy")


def test_a_subset_is_taken_by_the_hash_of_the_pixels(tmp_path: Path) -> None:
    """In any order of the full dataset, its parts stay the same, share no image, and count equal images once."""
    pixels = noise(20, 4, 4, 3)
    labels = (np.arange(20) % 2).astype(np.uint8)
    pixels[2] = pixels[0]
    keys = sorted({hashlib.sha256(image.tobytes()).digest() for image in pixels[::2]})
    for order in (list(range(20)), list(range(19, -1, -1))):
        first = subset(tmp_path, pixels, labels, order, label=0, first=0, count=4).pixels.copy()
        rest = subset(tmp_path, pixels, labels, order, label=0, first=4, count=5).pixels
        assert [hashlib.sha256(image.tobytes()).digest() for image in (*first, *rest)] == keys
    classes = subset(tmp_path, pixels, labels, order, first=3, count=8, classes=2)
    assert classes.labels is not None
    for image, label in zip(classes.pixels, classes.labels, strict=True):
        assert label == labels[np.flatnonzero((pixels == image).all((1, 2, 3)))[0]]
    with pytest.raises(UserError, match=r"holds 5 images, but .* says 6"):
        subset(tmp_path, pixels, labels, order, label=0, first=4, count=6)


# files with images


def test_glows_records_are_read_train_before_validation(images: Path, tmp_path: Path) -> None:
    pictures = noise(5, 16, 16, 3)
    shards = {"validation/v-0-of-1": pictures[4:], "train/t-1-of-2": pictures[2:4], "train/t-0-of-2": pictures[:2]}
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
    files = {}
    for split in ("val", "train"):
        for kind, shade in (("wild", 30), ("cat", 10), ("dog", 20)):
            for number in (2, 1):
                files[f"afhq/{split}/{kind}/{number}.jpg"] = flat(16, shade + number, "JPEG")
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
def test_few_shot_sets_are_found_in_bundles(
    images: Path,
    tmp_path: Path,
    name: str,
    folder: str,
    archive: str,
) -> None:
    files = {str(Path(folder) / f"{number}.png"): flat(40, number) for number in (3, 1, 2)}
    files["__MACOSX/._1.png"] = b"-"
    if "/" in folder:
        files["few-shot-images/pokemon/img/1.png"] = flat(8, 99)
    write = write_tar if archive.endswith(".tar") else write_zip
    prepare(name, small(name, 3), images, write(tmp_path / archive, files))
    assert first_pixels(images) == [1, 2, 3]
    assert Images(images).pixels.shape == (3, 256, 256, 3)
    preparation = "RGB, in the order of their paths, resized to 256 x 256 px (bilinear)"
    assert read_json(images.with_name("meta.json"))["preparation"] == preparation


@pytest.mark.parametrize("kind", ["folder", "x.zip", "x.tar.gz"])
def test_an_archive_is_read_in_the_order_of_its_paths(images: Path, tmp_path: Path, kind: str) -> None:
    """Folder by folder: "b" comes before "b-c", although "-" sorts before "/"."""
    files = {"toy/b-c/0.png": flat(16, 40), "toy/b/2.png": flat(16, 20), "toy/a/1.png": flat(16, 10)}
    files |= {"toy/b/10.png": flat(8, 30), "toy/notes.txt": b"-"}
    write = {"folder": write_folder, "x.zip": write_zip}.get(kind, write_tar)
    prepare("toy", toy(resize="bilinear", classes=3, count=4), images, write(tmp_path / kind, files))
    assert first_pixels(images) == [10, 30, 20, 40]
    assert np.load(images.with_name("labels.npy")).tolist() == [0, 1, 1, 2]


# pictures

AFHQ = Compose([CenterCrop(40), Resize(32, InterpolationMode.LANCZOS)])


@pytest.mark.parametrize(
    ("name", "changes", "shape", "expected"),
    [
        ("shells", {}, (300, 300, 3), Resize((256, 256))),
        ("shells", {}, (97, 311, 3), Resize((256, 256))),
        ("shells", {}, (130, 64, 4), Resize((256, 256))),
        ("afhq", {"resolution": 32, "classes": 1}, (40, 61, 3), AFHQ),
        ("afhq", {"resolution": 32, "classes": 1}, (63, 40, 3), AFHQ),
    ],
)
def test_images_are_cropped_and_resized_as_torchvision_does(
    images: Path,
    tmp_path: Path,
    name: str,
    changes: dict[str, object],
    shape: tuple[int, ...],
    expected: Compose,
) -> None:
    picture = encoded(noise(*shape))
    prepare(name, small(name, 1, **changes), images, write_folder(tmp_path / "x", {"train/cat/1.png": picture}))  # type: ignore[arg-type]
    with Image.open(io.BytesIO(picture)) as image:
        assert np.array_equal(np.load(images)[0], np.asarray(expected(image.convert("RGB"))))


@pytest.mark.parametrize(("resize", "sha256"), [("bilinear", "5beccb9b952c01f5"), ("lanczos", "35733cdc498e43d1")])
def test_a_jpeg_comes_out_with_the_same_bytes_everywhere(
    images: Path,
    tmp_path: Path,
    resize: str,
    sha256: str,
) -> None:
    source = write_folder(tmp_path / "toy", {"1.jpg": (FILES / "probe.jpg").read_bytes()})
    prepare("toy", toy(resize=resize, count=1), images, source)
    assert digest(images).startswith(sha256)


def bomb() -> bytes:
    """A picture of a few bytes, whose header declares 400 million pixels."""
    content = flat(8, 0)
    header = b"IHDR" + struct.pack(">II", 20_000, 20_000) + content[24:29]
    return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]


DAMAGED = {
    "cut": flat(8, 1)[:40],
    "empty": b"",
    "page": b"<html>",
    "end": encoded(noise(8, 8, 3), "JPEG")[:-60],
    "bomb": bomb(),
}


@pytest.mark.parametrize("damaged", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_image_is_named(images: Path, tmp_path: Path, damaged: bytes) -> None:
    source = write_folder(tmp_path / "toy", {"0.png": flat(8, 0), "1.png": damaged, "2.png": flat(8, 2)})
    with pytest.raises(UserError, match=r"1\.png cannot be read as an image"):
        prepare("toy", toy(), images, source)
    assert left(images) == []
