"""The check compares a prepared dataset with params/ and its meta.json, and names every difference."""

import os
from pathlib import Path

import numpy as np
from support.archives import flat, write_folder
from support.datasets import toy

from rtm.config.experiments import DatasetEntry
from rtm.data.check import problems
from rtm.data.prepare import prepare


def test_check_finds_every_change(images: Path, tmp_path: Path) -> None:
    files = {f"{kind}/{value}.png": flat(8, value) for kind in "ab" for value in range(2)}
    dataset = toy(count=4, classes=2)
    source = write_folder(tmp_path / "toy", files)

    def found(dataset: DatasetEntry = dataset) -> str:
        return "; ".join(problems(dataset, images))

    prepare("toy", dataset, images, source)
    assert found() == ""
    assert "holds uint8 (4, 8, 8, 3), not uint8 (5, 8, 8, 3)" in found(dataset.model_copy(update={"count": 5}))
    assert "but params/datasets.yaml says 000" in found(dataset.model_copy(update={"sha256": "0" * 64}))
    (images.with_name(".images.npy.1.tmp")).write_bytes(b"")
    assert found() == ".images.npy.1.tmp does not belong there"
    images.with_name(".images.npy.1.tmp").unlink()
    np.save(images.with_name("labels.npy"), np.array([0, 1, 2, 0]))
    assert found() == "labels.npy does not give each image one of 2 classes"
    prepare("toy", dataset, images, source)
    with open(images, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    assert "but meta.json says" in found()
    images.write_bytes(b"nonsense")
    assert found().startswith("it cannot be read")
    images.with_name("meta.json").unlink()
    assert "images.npy is missing" in found()
