"""Shared fixtures of the scenarios."""

from collections.abc import Iterator

import pytest
from support import tool_server


@pytest.fixture(scope="module")
def warm_tools() -> Iterator[None]:
    """For test files that start Snakemake, DVC and the stand-in's `rtm` many times."""
    with tool_server.tools():
        yield
