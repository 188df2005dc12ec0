"""Time stamps, by which Snakemake decides whether a job runs.

The inputs of a fresh job are marked `ancient`; a stale job gets one more input, a file that is newer than any output.
"""

import atexit
import os
import uuid
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

FOLDER = Path(".snakemake/rtm")


class Mark:
    """A file that is newer than all outputs. Its name is new, because for known names Snakemake compares the bytes."""

    @cached_property
    def path(self) -> Path:
        FOLDER.mkdir(parents=True, exist_ok=True)
        path = FOLDER / f"stale-{uuid.uuid4().hex}"
        path.touch()
        atexit.register(path.unlink, missing_ok=True)
        return path

    def newer_than(self, files: Iterable[Path]) -> str:
        """The file. If a wrong clock gave files a time in the future, they get an earlier time."""
        marked = self.path.stat().st_mtime
        for path in files:
            if path.exists() and path.stat().st_mtime >= marked:
                os.utime(path, (marked - 1, marked - 1))
        return str(self.path)
