"""Files that a test needs and a clone lacks."""

import os
from pathlib import Path

import pytest


def needed(path: Path, name: str, variable: str) -> Path:
    """The path, or a skip that says how to get it; with the variable set, as in CI, a failure."""
    if not path.exists():
        missing = f"{path} is missing; get it with `rtm fetch {name}`"
        if os.environ.get(variable):
            pytest.fail(missing)
        pytest.skip(missing)
    return path
