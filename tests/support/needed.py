"""Files that a test needs and a clone does not have."""

import os
from pathlib import Path

import pytest


def needed(path: Path, name: str, variable: str) -> Path:
    """The path, if it exists. Otherwise skip the test with advice or, if the variable is set (as in CI), fail."""
    if not path.exists():
        missing = f"{path} is missing; get it with `rtm fetch {name}`"
        if os.environ.get(variable):
            pytest.fail(missing)
        pytest.skip(missing)
    return path
