"""What scenarios share."""

from collections.abc import Iterator

import pytest
from support import snakemake_server


@pytest.fixture(scope="module")
def warm_snakemake() -> Iterator[None]:
    """For files that start Snakemake again and again."""
    with snakemake_server.snakemake():
        yield
