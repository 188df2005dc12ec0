"""What scenarios share."""

from collections.abc import Iterator

import pytest
from support import tool_server


@pytest.fixture(scope="module")
def warm_tools() -> Iterator[None]:
    """For files that start Snakemake, DVC and the stand-in's `rtm` again and again."""
    with tool_server.tools():
        yield
