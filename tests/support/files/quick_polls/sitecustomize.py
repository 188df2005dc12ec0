"""For a `snakemake` of the tests: SLURM's executor looks after its jobs twice a second, not after 3, 13, 23 seconds."""

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any

if any(word.endswith("snakemake") for word in sys.orig_argv[:3]):
    sleep = asyncio.sleep

    def short(seconds: float, *result: Any) -> Awaitable[Any]:
        return sleep(min(seconds, 0.5), *result)

    asyncio.sleep = short  # type: ignore[assignment]
