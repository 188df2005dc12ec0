"""Prepare a dataset once as one memory-mappable array: the same input gives the same bytes on any machine.

`rtm.data.kinds` yields each image with its place, in the order that is fastest to read. So nothing large is held in
memory.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from rtm.config.experiments import DatasetEntry
from rtm.core.errors import UserError
from rtm.core.files import atomic, digest, room, write_json
from rtm.core.progress import track
from rtm.data.datasets import Labels
from rtm.data.kinds import Row, read, wrong_count

ORDERS = {
    "digits": "in scikit-learn's order",
    "cifar10": "batches 1 to 5",
    "images": "in the order of their paths",
    "subset": "in the order of the sha256 of their pixels",
}


@dataclass(frozen=True)
class Part:
    """The images for training, or the test split."""

    prefix: str  # of the names of its files
    count: int
    sha256: str | None  # of its images, if params/ has it

    @property
    def file(self) -> str:
        return f"{self.prefix}images.npy"


def prepare(
    name: str,
    dataset: DatasetEntry,
    images: Path,
    source: Path | None = None,
    recorded: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Write the dataset's files beside `images` and return the sha256 of its arrays, by file name.

    They must equal the values in params/ and the `recorded` ones, if these are known. Otherwise nothing is changed.
    """
    parts = [Part("", dataset.count, dataset.sha256)]
    if dataset.test:
        parts.append(Part("test_", dataset.test.count, dataset.test.sha256))
    meta = images.with_name("meta.json")
    sums: dict[str, str] = {}
    labels: dict[str, Labels] = {}
    size = sum(part.count for part in parts) * dataset.resolution**2 * 3
    with room(images.parent, size):
        with ExitStack() as stack:
            for part in parts:
                file = stack.enter_context(atomic(images.with_name(part.file)))
                rows = read(name, dataset, source, test=bool(part.prefix))
                labels[part.prefix] = _write(name, dataset, part.count, file, rows)
                file.flush()
                sums[part.file] = digest(file.name)
                known = {"params/datasets.yaml": part.sha256, "its receipt": (recorded or {}).get(part.file)}
                _refuse_other(f"{part.file} of {name}", sums[part.file], known)
            meta.unlink(missing_ok=True)  # no meta.json means no dataset until the new one is complete
        for prefix in ("", "test_"):
            _write_labels(images.with_name(f"{prefix}labels.npy"), labels.get(prefix) if dataset.classes else None)
        if not dataset.test:
            images.with_name("test_images.npy").unlink(missing_ok=True)
        write_json(meta, described(name, dataset, sums))
    return sums


def _write(name: str, dataset: DatasetEntry, count: int, file: IO[bytes], rows: Iterable[Row]) -> Labels:
    """Write an .npy file image by image, each at its place."""
    image_shape = (dataset.resolution, dataset.resolution, 3)
    header = {"descr": "|u1", "fortran_order": False, "shape": (count, *image_shape)}
    np.lib.format.write_array_header_1_0(file, header)
    begin = file.tell()
    stride = int(np.prod(image_shape))
    labels = np.full(count, -1, np.int64)
    seen = 0
    for place, pixels, label in track(rows, f"prepare {name}", count):
        if pixels.shape != image_shape:
            raise UserError(
                f"{name} has images of {pixels.shape[1]} x {pixels.shape[0]} px, but params/datasets.yaml says "
                f"{dataset.resolution} px; change its resolution."
            )
        seen += 1
        if place < count:
            file.seek(begin + place * stride)
            file.write(pixels.tobytes())
            labels[place] = label
    if seen != count:
        raise wrong_count(name, seen, count)
    return labels


def _refuse_other(name: str, sha256: str, expected: Mapping[str, str | None]) -> None:
    for where, known in expected.items():
        if known not in (None, sha256):
            raise UserError(
                f"{name} came out with sha256 {sha256}, not with the {known} of {where}; get the original archive, or "
                f"delete the sha256 from {where} if the data was meant to change."
            )


def _write_labels(path: Path, labels: Labels | None) -> None:
    if labels is None:
        path.unlink(missing_ok=True)
        return
    with atomic(path) as file:
        np.save(file, labels)


def described(name: str, dataset: DatasetEntry, sums: Mapping[str, str]) -> dict[str, object]:
    """The content of meta.json, which is the same from every source; the receipt names the source."""
    facts = dataset.model_dump(include={"title", "resolution", "count", "classes", "licence", "citation"})
    facts["name"] = name
    facts["sha256"] = sums["images.npy"]
    facts["preparation"] = preparation(dataset)
    if dataset.test:
        facts["test_count"] = dataset.test.count
        facts["test_sha256"] = sums["test_images.npy"]
    return facts


def preparation(dataset: DatasetEntry) -> str:
    size = f"{dataset.resolution} x {dataset.resolution} px"
    steps = ["RGB", ORDERS.get(dataset.kind, f"made by {dataset.kind}")]
    if dataset.crop:
        steps.append("cut to the middle square")
    if dataset.resize == "none":
        steps.append(f"{size}, as they are")
    else:
        steps.append(f"resized to {size} ({dataset.resize})")
    return ", ".join(steps)
