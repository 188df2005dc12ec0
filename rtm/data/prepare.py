"""Prepare a dataset once as one memory-mappable array: the same input gives the same bytes on any machine.

Images are ordered by the paths of their files, folder by folder. A reader yields each image with its place in this
order. So an archive can be read from front to back, and nothing large is held in memory.
"""

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rtm.config.classes import built
from rtm.config.experiments import Dataset
from rtm.core.errors import UserError, printable
from rtm.core.files import atomic, digest, room, write_json
from rtm.core.progress import track
from rtm.data import tfrecords
from rtm.data.archives import Archive, Member, opened
from rtm.data.datasets import Images, Labels, Pixels
from rtm.data.pickles import load_arrays
from rtm.data.pictures import SUFFIXES, open_image

Row = tuple[int, Pixels, int]  # place, image, class
Origin = dict[str, str]  # the source of the images: file and sha256
RESIZE = {"bilinear": Image.Resampling.BILINEAR, "lanczos": Image.Resampling.LANCZOS}
ORDERS = {
    "digits": "in scikit-learn's order",
    "cifar10": "batches 1 to 5",
    "images": "in the order of their paths",
    "subset": "in the order of the sha256 of their pixels",
}
CIFAR_TRAINING = ("train_lables.json", [f"data_batch_{number}" for number in range(1, 6)])  # npm's own spelling
CIFAR_TEST = ("test_lables.json", ["test_batch"])
TEST = "test_"  # the beginning of the names of the test split's files


def prepare(
    name: str,
    dataset: Dataset,
    images: Path,
    source: Path | None = None,
    origin: Origin | None = None,
    recorded: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Write the dataset's files beside `images` and return the sha256 of its arrays, by file name.

    They must equal the values in params/ and the `recorded` ones, if these are known. Otherwise nothing is changed.
    """
    meta = images.with_name("meta.json")
    counts = {"": dataset.count} | ({TEST: dataset.test.count} if dataset.test else {})
    expected = {"images.npy": dataset.sha256, "test_images.npy": dataset.test.sha256 if dataset.test else None}
    found: dict[str, str] = {}
    labels: dict[str, Labels] = {}
    with room(images.parent, sum(counts.values()) * dataset.resolution**2 * 3):
        with ExitStack() as stack:
            for prefix, count in counts.items():
                path = images.with_name(f"{prefix}images.npy")
                file = stack.enter_context(atomic(path))
                labels[prefix] = _write(name, dataset, count, file, _read(name, dataset, source, bool(prefix)))
                file.flush()
                found[path.name] = digest(file.name)
                known = {"params/datasets.yaml": expected[path.name], "its receipt": (recorded or {}).get(path.name)}
                _refuse_other(f"{path.name} of {name}", found[path.name], known)
            meta.unlink(missing_ok=True)  # no meta.json means no dataset until the new one is complete
        for prefix in ("", TEST):
            _write_labels(images.with_name(f"{prefix}labels.npy"), labels.get(prefix) if dataset.classes else None)
        if not dataset.test:
            images.with_name("test_images.npy").unlink(missing_ok=True)
        write_json(meta, described(name, dataset, found, origin))
    return found


def _write_labels(path: Path, labels: Labels | None) -> None:
    if labels is None:
        path.unlink(missing_ok=True)
        return
    with atomic(path) as file:
        np.save(file, labels)


def described(name: str, dataset: Dataset, found: Mapping[str, str], origin: Origin | None) -> dict[str, object]:
    """The content of meta.json."""
    facts = dataset.model_dump(include={"title", "resolution", "count", "classes", "licence", "citation"})
    if dataset.test:
        facts |= {"test_count": dataset.test.count, "test_sha256": found["test_images.npy"]}
    known = {"name": name, "sha256": found["images.npy"], "source": origin, "preparation": preparation(dataset)}
    return known | facts


def preparation(dataset: Dataset) -> str:
    side = f"{dataset.resolution} x {dataset.resolution} px"
    crop = ["cut to the middle square"] if dataset.crop else []
    resize = [f"resized to {side} ({dataset.resize})"] if dataset.resize != "none" else [f"{side}, as they are"]
    order = ORDERS.get(dataset.kind, f"made by {dataset.kind}")
    return ", ".join(["RGB", order, *crop, *resize])


def _refuse_other(name: str, sha256: str, expected: Mapping[str, str | None]) -> None:
    for where, known in expected.items():
        if known not in (None, sha256):
            raise UserError(
                f"{name} came out with sha256 {sha256}, not with the {known} of {where}; get the original archive, or "
                f"delete the sha256 from {where} if the data was meant to change."
            )


def _write(name: str, dataset: Dataset, count: int, file: IO[bytes], rows: Iterable[Row]) -> Labels:
    """Write an .npy file image by image, each at its place."""
    shape = (count, dataset.resolution, dataset.resolution, 3)
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    begin, stride = file.tell(), int(np.prod(shape[1:]))
    labels = np.full(count, -1, np.int64)
    seen = 0
    for place, pixels, label in track(rows, f"prepare {name}", count):
        if pixels.shape != shape[1:]:
            size = " x ".join(map(str, pixels.shape[1::-1]))
            raise UserError(
                f"{name} has images of {size} px, but params/datasets.yaml says {shape[1]} px; change its resolution."
            )
        seen += 1
        if place < count:
            file.seek(begin + place * stride)
            file.write(pixels.tobytes())
            labels[place] = label
    if seen != count:
        raise _wrong_count(name, seen, count)
    return labels


def _wrong_count(name: str, number: int, count: int) -> UserError:
    return UserError(
        f"The source of {name} holds {number} images, but params/datasets.yaml says {count}; check that it is "
        "complete and the right one."
    )


def _read(name: str, dataset: Dataset, source: Path | None, test: bool) -> Iterator[Row]:
    if dataset.made_here:
        yield from _digits(dataset) if dataset.kind == "digits" else _own(name, dataset)
        return
    assert source is not None
    if dataset.kind == "subset":
        yield from _subset(dataset, source)
        return
    with opened(source) as archive:
        yield from _cifar10(archive, test) if dataset.kind == "cifar10" else _images(name, dataset, archive)


def _digits(dataset: Dataset) -> Iterator[Row]:
    from sklearn.datasets import load_digits  # here, because the import is slow

    digits = load_digits()
    size, chosen = (dataset.resolution, dataset.resolution), slice(dataset.first, dataset.first + dataset.count)
    grey = np.rint(digits.images[chosen] * (255 / 16)).astype(np.uint8)
    for place, (image, label) in enumerate(zip(grey, digits.target[chosen], strict=True)):
        resized = image if image.shape == size else np.asarray(Image.fromarray(image).resize(size, RESIZE["bilinear"]))
        yield place, np.repeat(resized[..., None], 3, axis=-1), int(label)


def _own(name: str, dataset: Dataset) -> Iterator[Row]:
    """The first images from a user's class or function, which yields images or (image, label)."""
    made = iter(built(dataset.kind, {"resolution": dataset.resolution}, dataset.options or {}))
    for place, row in enumerate(islice(made, dataset.count)):
        image, label = row if isinstance(row, tuple) else (row, -1)
        pixels = np.asarray(image)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            found = f"{pixels.dtype} {pixels.shape}"
            raise UserError(f"Image {place} of {name} is {found}; {dataset.kind} must yield uint8 of (R, R, 3).")
        if dataset.classes and not 0 <= label < dataset.classes:
            raise UserError(f"Image {place} of {name} has label {label}; {dataset.kind} must yield 0 to classes - 1.")
        yield place, pixels, int(label)


def _subset(dataset: Dataset, source: Path) -> Iterator[Row]:
    """`count` images of another dataset, ordered by sha256, from number `first` on; equal images count once."""
    whole = Images(source)
    labels = np.zeros(len(whole), np.int64) if whole.labels is None else whole.labels
    inside = np.arange(len(whole)) if dataset.label is None else np.flatnonzero(labels == dataset.label)
    ordered = {hashlib.sha256(whole.pixels[index].tobytes()).digest(): index for index in reversed(inside)}
    chosen = [ordered[key] for key in sorted(ordered)][dataset.first : dataset.first + dataset.count]
    yield from ((place, whole.pixels[index], int(labels[index])) for place, index in enumerate(chosen))


def _cifar10(archive: Archive, test: bool) -> Iterator[Row]:
    """CIFAR-10 from the official pickled batches, or from PNG sheets with one image in each row."""
    members = {member.path.name: member for member in archive.members()}
    labels, batches = CIFAR_TEST if test else CIFAR_TRAINING
    sheets = f"{batches[0]}.png" in members
    wanted = [*(f"{batch}.png" for batch in batches), labels] if sheets else batches
    if not members.keys() >= {*wanted}:
        raise UserError(f"{archive.source} does not hold the batches of CIFAR-10; get the original archive.")
    chosen = [members[each] for each in wanted]
    read = _sheets(archive, chosen[:-1], chosen[-1]) if sheets else _batches(archive, chosen)
    try:
        yield from ((place, pixels, int(label)) for place, (pixels, label) in enumerate(read))
    except (KeyError, ValueError, TypeError, RecursionError):
        raise UserError(f"The batches of {archive.source} are damaged; delete it and get it again.") from None


def _batches(archive: Archive, members: list[Member]) -> Iterator[tuple[Pixels, int]]:
    for member in members:
        batch = load_arrays(io.BytesIO(archive.read(member)))
        pixels = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        yield from zip(pixels, batch[b"labels"], strict=True)


def _sheets(archive: Archive, members: list[Member], labels: Member) -> Iterator[tuple[Pixels, int]]:
    sheets = (_decoded(member.path, archive.read(member)).reshape(-1, 32, 32, 3) for member in members)
    images = (pixels for sheet in sheets for pixels in sheet)
    yield from zip(images, json.loads(archive.read(labels)), strict=True)


def _images(name: str, dataset: Dataset, archive: Archive) -> Iterator[Row]:
    """Images from files with one image each, or from TFRecord files with many images."""
    members = _inside(archive.members(), dataset.folders)
    records = sorted((member for member in members if member.path.suffix == ".tfrecords"), key=_parts)
    if records:
        pictures = (pixels for each in records for pixels in tfrecords.images(archive.read(each), str(each.path)))
        yield from ((place, pixels, 0) for place, pixels in enumerate(pictures))
        return
    chosen = [member for member in members if member.path.suffix.lower() in SUFFIXES]
    if len(chosen) != dataset.count:
        raise _wrong_count(name, len(chosen), dataset.count)
    classes = sorted({member.path.parent.name for member in chosen})
    if dataset.classes and len(classes) != dataset.classes:
        raise UserError(f"{archive.source} has images in {len(classes)} folders, not {dataset.classes} classes.")
    place = {member.path: number for number, member in enumerate(sorted(chosen, key=_parts))}
    for member in chosen:
        pixels = _fitted(member.path, _decoded(member.path, archive.read(member)), dataset)
        yield place[member.path], pixels, classes.index(member.path.parent.name)


def _parts(member: Member) -> tuple[str, ...]:
    return member.path.parts


def _inside(members: list[Member], folders: tuple[str, ...]) -> list[Member]:
    """The files in the dataset's folders; all files, if the source has none of these folders."""
    inside = [member for member in members if set(member.path.parts[:-1]) & set(folders)]
    return inside or members


def _decoded(path: PurePosixPath, content: bytes) -> Pixels:
    with open_image(io.BytesIO(content), str(path), "delete its archive and get it again") as image:
        return np.asarray(image.convert("RGB"))


def _fitted(path: PurePosixPath, pixels: Pixels, dataset: Dataset) -> Pixels:
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
    top, left = round((height - side) / 2), round((width - side) / 2)
    return pixels[top : top + side, left : left + side]
