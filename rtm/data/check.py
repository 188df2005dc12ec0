"""Whether a prepared dataset is what params/ and its own meta.json say, and what there is to tell of it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtm.config.experiments import Dataset
from rtm.core.errors import UserError
from rtm.core.files import digest, read_json
from rtm.data.datasets import Images

FILES = {"images.npy", "labels.npy", "meta.json"}


def problems(dataset: Dataset, images: Path) -> list[str]:
    """What is wrong with a dataset that is here, found by reading all of it."""
    try:
        held = Images(images)
    except (UserError, ValueError, KeyError) as error:
        return [f"it cannot be read ({error})"]
    found = []
    sha256 = digest(images)
    if sha256 != held.sha256:
        found.append(f"images.npy has sha256 {sha256}, but meta.json says {held.sha256}")
    if dataset.sha256 not in (None, sha256):
        found.append(f"images.npy has sha256 {sha256}, but params/datasets.yaml says {dataset.sha256}")
    expected = (dataset.count, dataset.resolution, dataset.resolution, 3)
    if held.pixels.shape != expected or held.pixels.dtype != np.uint8:
        found.append(f"images.npy holds {held.pixels.dtype} {held.pixels.shape}, not uint8 {expected}")
    if not _labels_fit(dataset, held.labels):
        found.append(f"labels.npy does not give each image one of {dataset.classes} classes")
    found += [f"{path.name} does not belong there" for path in images.parent.iterdir() if path.name not in FILES]
    return found


def _labels_fit(dataset: Dataset, labels: NDArray[np.int64] | None) -> bool:
    if not dataset.classes or labels is None:
        return not dataset.classes
    return labels.shape == (dataset.count,) and set(np.unique(labels)) <= set(range(dataset.classes))


def facts(dataset: Dataset, images: Path) -> dict[str, str]:
    """What there is to say of a dataset, by title."""
    held, meta = Images(images), read_json(images.with_name("meta.json"))
    count, height, width, _ = held.pixels.shape
    source = meta["source"] or {"file": "shipped with scikit-learn"}
    told = {
        "images": f"{count:,} of {width} x {height} px, RGB, {images.stat().st_size / 1e6:,.1f} MB",
        "classes": "none",
        "preparation": meta["preparation"],
        "source": " ".join(source.values()),
        "sha256": held.sha256,
        "licence": dataset.licence,
        "citation": dataset.citation,
    }
    if held.labels is not None:
        sizes = np.bincount(held.labels)
        told["classes"] = f"{len(sizes)} of {' '.join(map(str, sizes)) if len(set(sizes)) > 1 else sizes[0]} images"
    return told
