"""Check that a prepared dataset agrees with params/ and its meta.json, and collect facts for `rtm fetch --show`."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtm.config.experiments import DatasetEntry
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.readers import read_json
from rtm.data.datasets import Images

FILES = {"images.npy", "labels.npy", "test_images.npy", "test_labels.npy", "meta.json"}


def problems(dataset: DatasetEntry, images: Path) -> list[str]:
    """The faults of a prepared dataset, found by reading all of it."""
    faults = _faults(dataset, images, dataset.count, dataset.sha256)
    if dataset.test:
        faults += _faults(dataset, images.with_name("test_images.npy"), dataset.test.count, dataset.test.sha256)
    for path in images.parent.iterdir():
        if path.name not in FILES:
            faults.append(f"{path.name} does not belong there")
    return faults


def _faults(dataset: DatasetEntry, path: Path, count: int, expected: str | None) -> list[str]:
    try:
        images = Images(path)
    except (UserError, ValueError, KeyError) as error:
        return [f"it cannot be read ({error})"]
    faults = []
    sha256 = digest(path)
    shape = (count, dataset.resolution, dataset.resolution, 3)
    if sha256 != images.sha256:
        faults.append(f"{path.name} has sha256 {sha256}, but meta.json says {images.sha256}")
    if expected not in (None, sha256):
        faults.append(f"{path.name} has sha256 {sha256}, but params/datasets.yaml says {expected}")
    if images.pixels.shape != shape or images.pixels.dtype != np.uint8:
        faults.append(f"{path.name} holds {images.pixels.dtype} {images.pixels.shape}, not uint8 {shape}")
    if not _labels_fit(images.labels, count, dataset.classes):
        labels = path.name.replace("images", "labels")
        faults.append(f"{labels} does not give each image one of {dataset.classes} classes")
    return faults


def _labels_fit(labels: NDArray[np.int64] | None, count: int, classes: int) -> bool:
    if not classes:
        return True
    if labels is None or labels.shape != (count,):
        return False
    return set(np.unique(labels)) <= set(range(classes))


def facts(dataset: DatasetEntry, images: Path, sources: Mapping[str, str]) -> dict[str, str]:
    """The facts about a dataset that `rtm fetch --show` prints, by title. `sources` are the sha256 of the files that it
    was prepared from."""
    prepared = Images(images)
    meta = read_json(images.with_name("meta.json"))
    origin = dataset.of or "shipped with rtm"
    test = images.with_name("test_images.npy")
    facts = {"images": _images(images)}
    if dataset.test and test.exists():
        facts["test split"] = _images(test)
    facts["classes"] = _classes(prepared.labels)
    facts["preparation"] = meta["preparation"]
    facts["source"] = ", ".join(f"{name} {sha256}" for name, sha256 in sources.items()) or origin
    facts["sha256"] = prepared.sha256 + ("" if dataset.sha256 else " (not in params/datasets.yaml)")
    facts["licence"] = dataset.licence
    facts["citation"] = dataset.citation
    return facts


def _images(path: Path) -> str:
    count, height, width, _ = Images(path).pixels.shape
    size = path.stat().st_size / 1e6
    return f"{count:,} of {width} x {height} px, RGB, {size:,.1f} MB"


def _classes(labels: NDArray[np.int64] | None) -> str:
    if labels is None:
        return "none"
    sizes = [f"{size:,}" for size in np.bincount(labels)]
    if len(set(sizes)) == 1:
        return f"{len(sizes)} classes of {sizes[0]} images each"
    return f"{len(sizes)} classes of {', '.join(sizes)} images"
