"""Read the images of each kind of dataset, each with its place and its class.

Images are ordered by the paths of their files, folder by folder. A reader yields each image with its place in this
order, so an archive can be read from front to back.
"""

import hashlib
import io
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rtm.config.classes import built
from rtm.config.experiments import DatasetEntry
from rtm.core.errors import UserError, printable
from rtm.data import tfrecords
from rtm.data.archives import Archive, Member, opened
from rtm.data.datasets import Images, Pixels
from rtm.data.pickles import load_arrays
from rtm.data.pictures import SUFFIXES, open_image

Row = tuple[int, Pixels, int]  # place, image, class
RESIZE = {"bilinear": Image.Resampling.BILINEAR, "lanczos": Image.Resampling.LANCZOS}
DIGITS = Path(__file__).parent / "digits.npz"  # 8 x 8, from 0 to 16; see digits.LICENCE.txt
CIFAR_TRAINING = [f"data_batch_{number}" for number in range(1, 6)]
CIFAR_TEST = ["test_batch"]


def read(name: str, dataset: DatasetEntry, source: Path | None, test: bool) -> Iterator[Row]:
    """The images of a dataset or, with `test`, of its test split."""
    if dataset.kind == "digits":
        yield from _digits(dataset)
    elif dataset.made_here:
        yield from _own(name, dataset)
    elif dataset.kind == "subset":
        assert source is not None
        yield from _subset(dataset, source)
    else:
        assert source is not None
        with opened(source) as archive:
            yield from _cifar10(archive, test) if dataset.kind == "cifar10" else _images(name, dataset, archive)


def wrong_count(name: str, number: int, count: int) -> UserError:
    return UserError(
        f"The source of {name} holds {number} images, but params/datasets.yaml says {count}; check that it is "
        "complete and the right one."
    )


def _digits(dataset: DatasetEntry) -> Iterator[Row]:
    part = slice(dataset.first, dataset.first + dataset.count)
    size = (dataset.resolution, dataset.resolution)
    with np.load(DIGITS) as digits:
        grey = np.rint(digits["images"][part] * (255 / 16)).astype(np.uint8)
        labels = digits["labels"][part]
    for place, (image, label) in enumerate(zip(grey, labels, strict=True)):
        if image.shape != size:
            image = np.asarray(Image.fromarray(image).resize(size, RESIZE["bilinear"]))
        yield place, np.repeat(image[..., None], 3, axis=-1), int(label)


def _own(name: str, dataset: DatasetEntry) -> Iterator[Row]:
    """The first images from a user's class or function, which yields images or (image, label)."""
    images = built(dataset.kind, {"resolution": dataset.resolution}, dataset.options or {})
    for place, row in enumerate(islice(iter(images), dataset.count)):
        image, label = row if isinstance(row, tuple) else (row, -1)
        pixels = np.asarray(image)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            kind = f"{pixels.dtype} {pixels.shape}"
            raise UserError(f"Image {place} of {name} is {kind}; {dataset.kind} must yield uint8 of (R, R, 3).")
        if dataset.classes and not 0 <= label < dataset.classes:
            raise UserError(f"Image {place} of {name} has label {label}; {dataset.kind} must yield 0 to classes - 1.")
        yield place, pixels, int(label)


def _subset(dataset: DatasetEntry, source: Path) -> Iterator[Row]:
    """`count` images of another dataset, ordered by sha256, from number `first` on; equal images count once."""
    whole = Images(source)
    labels = np.zeros(len(whole), np.int64) if whole.labels is None else whole.labels
    inside = np.arange(len(whole))
    if dataset.label is not None:
        inside = np.flatnonzero(labels == dataset.label)
    by_sum: dict[bytes, int] = {}
    for index in inside.tolist():
        key = hashlib.sha256(whole.pixels[index].tobytes()).digest()
        by_sum.setdefault(key, index)
    ordered = [by_sum[key] for key in sorted(by_sum)]
    for place, index in enumerate(ordered[dataset.first : dataset.first + dataset.count]):
        yield place, whole.pixels[index], int(labels[index])


# CIFAR-10


def _cifar10(archive: Archive, test: bool) -> Iterator[Row]:
    """CIFAR-10 from the official pickled batches, or from PNG sheets with one image in each row."""
    members = {member.path.name: member for member in archive.members()}
    batches = CIFAR_TEST if test else CIFAR_TRAINING
    sheets = [f"{batch}.png" for batch in batches]
    labels = "test_lables.json" if test else "train_lables.json"  # npm's own spelling
    if members.keys() >= {*sheets, labels}:
        images = _sheets(archive, [members[sheet] for sheet in sheets], members[labels])
    elif members.keys() >= {*batches}:
        images = _batches(archive, [members[batch] for batch in batches])
    else:
        raise UserError(f"{archive.source} does not hold the batches of CIFAR-10; get the original archive.")
    try:
        for place, (pixels, label) in enumerate(images):
            yield place, pixels, int(label)
    except (KeyError, ValueError, TypeError, RecursionError):
        raise UserError(f"The batches of {archive.source} are damaged; delete it and get it again.") from None


def _batches(archive: Archive, members: list[Member]) -> Iterator[tuple[Pixels, int]]:
    if archive.source.is_dir():
        raise UserError(
            f"{archive.source} holds unpacked pickles, which nothing can check; give the archive itself, "
            "cifar-10-python.tar.gz."
        )
    for member in members:
        batch = load_arrays(io.BytesIO(archive.read(member)))
        planes = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32)
        yield from zip(planes.transpose(0, 2, 3, 1), batch[b"labels"], strict=True)


def _sheets(archive: Archive, members: list[Member], labels: Member) -> Iterator[tuple[Pixels, int]]:
    sheets = (_decoded(member.path, archive.read(member)).reshape(-1, 32, 32, 3) for member in members)
    images = (pixels for sheet in sheets for pixels in sheet)
    yield from zip(images, json.loads(archive.read(labels)), strict=True)


# files with images


def _images(name: str, dataset: DatasetEntry, archive: Archive) -> Iterator[Row]:
    """Images from files with one image each, or from TFRecord files with many images."""
    members = archive.members()
    folders = set(dataset.folders)
    inside = [member for member in members if folders & set(_parts(member)[:-1])]
    inside = inside or members  # the source has none of these folders
    records = [member for member in inside if member.path.suffix == ".tfrecords"]
    if records:
        yield from _recorded(archive, sorted(records, key=_parts))
        return
    pictures = [member for member in inside if member.path.suffix.lower() in SUFFIXES]
    if len(pictures) != dataset.count:
        raise wrong_count(name, len(pictures), dataset.count)
    classes = sorted({member.path.parent.name for member in pictures})
    if dataset.classes and len(classes) != dataset.classes:
        raise UserError(f"{archive.source} has images in {len(classes)} folders, not {dataset.classes} classes.")
    places = {member.path: place for place, member in enumerate(sorted(pictures, key=_parts))}
    for member in pictures:
        pixels = _decoded(member.path, archive.read(member))
        label = classes.index(member.path.parent.name)
        yield places[member.path], _fitted(member.path, pixels, dataset), label


def _recorded(archive: Archive, members: list[Member]) -> Iterator[Row]:
    place = 0
    for member in members:
        for pixels in tfrecords.images(archive.read(member), str(member.path)):
            yield place, pixels, 0
            place += 1


def _parts(member: Member) -> tuple[str, ...]:
    return member.path.parts


def _decoded(path: PurePosixPath, content: bytes) -> Pixels:
    with open_image(io.BytesIO(content), str(path), "delete its archive and get it again") as image:
        return np.asarray(image.convert("RGB"))


def _fitted(path: PurePosixPath, pixels: Pixels, dataset: DatasetEntry) -> Pixels:
    if dataset.crop:
        pixels = _middle(pixels)
    size = (dataset.resolution, dataset.resolution)
    if pixels.shape[:2] == size:
        return pixels
    if dataset.resize == "none":
        raise UserError(
            f"{printable(path)} is {pixels.shape[1]} x {pixels.shape[0]} px, not {size[0]} x {size[1]}; write "
            "`resize: lanczos`, and `crop: true` for shapes other than squares, under it in params/datasets.yaml."
        )
    return np.asarray(Image.fromarray(pixels).resize(size, RESIZE[dataset.resize]))


def _middle(pixels: NDArray[np.uint8]) -> Pixels:
    """The largest square in the middle, rounded as torchvision does."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top = round((height - side) / 2)
    left = round((width - side) / 2)
    return pixels[top : top + side, left : left + side]
