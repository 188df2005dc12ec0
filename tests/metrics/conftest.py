"""The common start of the tests of several metrics."""

from pathlib import Path

import numpy as np
import pytest
from support.demo_images import Demo, prepared


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """The digits of the demo; their folder is the current one."""
    made = prepared(tmp_path)
    monkeypatch.chdir(tmp_path)
    return made
