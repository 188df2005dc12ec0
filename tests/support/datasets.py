"""Datasets that a test prepares: datasets of params/ with few images, and a toy."""

import json
from pathlib import Path

import numpy as np
from support import PARAMS

from rtm.config import load
from rtm.config.experiments import DatasetEntry, Split

DATASETS = load("paper", PARAMS).params.datasets


def small(name: str, count: int, resolution: int | None = None, **changes: object) -> DatasetEntry:
    """A dataset of params/ with few images."""
    side = resolution or DATASETS[name].resolution
    few = {"count": count, "resolution": side, "sha256": None, "test": Split(count=2) if DATASETS[name].test else None}
    return DATASETS[name].model_copy(update={**few, **changes})


def toy(**changes: object) -> DatasetEntry:
    described = {"title": "Toy", "kind": "images", "resolution": 8, "count": 3, "licence": "-", "citation": "-"}
    return DatasetEntry.model_validate_json(json.dumps({**described, **changes}))


def left(images: Path) -> list[str]:
    return sorted(path.name for path in images.parent.glob("*")) if images.parent.exists() else []


def first_pixels(images: Path) -> list[int]:
    return [int(value) for value in np.load(images)[:, 0, 0, 0]]
