"""Check that a prepared dataset agrees with params/ and with its meta.json, and collect facts for `rtm data show`."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtm.config.experiments import Dataset
from rtm.core.errors import UserError
from rtm.core.files import digest, read_json
from rtm.data.datasets import Images

FILES = {"images.npy", "labels.npy", "test_images.npy", "test_labels.npy", "meta.json"}


def problems(dataset: Dataset, images: Path) -> list[str]:
    """The faults of a prepared dataset, found by reading all of it."""
    found = _problems(dataset, images, dataset.count, dataset.sha256)
    if dataset.test:
        found += _problems(dataset, images.with_name("test_images.npy"), dataset.test.count, dataset.test.sha256)
    return found + [f"{path.name} does not belong there" for path in images.parent.iterdir() if path.name not in FILES]


def _problems(dataset: Dataset, images: Path, count: int, expected: str | None) -> list[str]:
    try:
        held = Images(images)
    except (UserError, ValueError, KeyError) as error:
        return [f"it cannot be read ({error})"]
    name, found = images.name, []
    sha256 = digest(images)
    if sha256 != held.sha256:
        found.append(f"{name} has sha256 {sha256}, but meta.json says {held.sha256}")
    if expected not in (None, sha256):
        found.append(f"{name} has sha256 {sha256}, but params/datasets.yaml says {expected}")
    shape = (count, dataset.resolution, dataset.resolution, 3)
    if held.pixels.shape != shape or held.pixels.dtype != np.uint8:
        found.append(f"{name} holds {held.pixels.dtype} {held.pixels.shape}, not uint8 {shape}")
    if not _labels_fit(held.labels, count, dataset.classes):
        labels = name.replace("images", "labels")
        found.append(f"{labels} does not give each image one of {dataset.classes} classes")
    return found


def _labels_fit(labels: NDArray[np.int64] | None, count: int, classes: int) -> bool:
    if not classes or labels is None:
        return not classes
    return labels.shape == (count,) and set(np.unique(labels)) <= set(range(classes))


def facts(dataset: Dataset, images: Path) -> dict[str, str]:
    """The facts about a dataset that `rtm data show` prints, by title."""
    held, meta = Images(images), read_json(images.with_name("meta.json"))
    source = meta["source"] or {"file": "shipped with scikit-learn"}
    test = images.with_name("test_images.npy")
    return {
        "images": _images(images),
        **({"test split": _images(test)} if dataset.test and test.exists() else {}),
        "classes": _classes(held.labels),
        "preparation": meta["preparation"],
        "source": " ".join(source.values()),
        "sha256": held.sha256 + ("" if dataset.sha256 else " (not in params/datasets.yaml)"),
        "licence": dataset.licence,
        "citation": dataset.citation,
    }


def _images(path: Path) -> str:
    count, height, width, _ = Images(path).pixels.shape
    return f"{count:,} of {width} x {height} px, RGB, {path.stat().st_size / 1e6:,.1f} MB"


def _classes(labels: NDArray[np.int64] | None) -> str:
    if labels is None:
        return "none"
    sizes = [int(size) for size in np.bincount(labels)]
    if len(set(sizes)) == 1:
        return f"{len(sizes)} classes of {sizes[0]:,} images each"
    return f"{len(sizes)} classes of {', '.join(f'{size:,}' for size in sizes)} images"
