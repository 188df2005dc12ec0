"""For Snakemake in tests: SLURM's executor checks its jobs every second, not after 3, 13, 23 seconds.

A submission without an answer is repeated after three seconds, not after ten. With RTM_TEST_SNAKEMAKE, that program
runs instead of Snakemake; it forks Snakemake from a process that has done its imports.
"""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable
from typing import Any

if (forked := os.environ.get("RTM_TEST_SNAKEMAKE")) and sys.orig_argv[1:3] == ["-m", "snakemake"]:
    os.execv(forked, [forked, *sys.orig_argv[3:]])

if any(word.endswith("snakemake") for word in sys.orig_argv[:3]):
    sleep = asyncio.sleep

    def short(seconds: float, *result: Any) -> Awaitable[Any]:
        return sleep(min(seconds, 1.0), *result)

    asyncio.sleep = short  # type: ignore[assignment]

if "rtm.pipeline.submit" in sys.orig_argv:
    pause = time.sleep

    def shorter(seconds: float) -> None:
        pause(min(seconds, 3.0))

    time.sleep = shorter  # type: ignore[assignment]
