"""For a `snakemake` of the tests: SLURM's executor looks after its jobs every second, not after 3, 13, 23 seconds.

A submission that got no answer is repeated after three seconds, not after ten. With RTM_TEST_SNAKEMAKE a Snakemake is
replaced by that program, which forks it from a process that has its imports.
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
