"""The path of a toy dataset, and its source."""

from pathlib import Path

import pytest
from support.archives import flat, write_zip


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return tmp_path / "data/toy/images.npy"


@pytest.fixture
def three(tmp_path: Path) -> Path:
    return write_zip(tmp_path / "three.zip", {f"{value}.png": flat(8, value) for value in range(3)})
