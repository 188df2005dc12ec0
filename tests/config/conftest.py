"""A copy of params/ that a test may spoil."""

import shutil
from pathlib import Path

import pytest
from support import PARAMS


@pytest.fixture
def params(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PARAMS, tmp_path / "params"))
