"""SLURM's commands for tests without a cluster."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rtm.pipeline import slurm


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that writes stand-ins for SLURM's commands, each one line of shell."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    slurm._partitions.cache_clear()
    slurm._nodes.cache_clear()
    (tmp_path / "bin").mkdir()

    def write(**lines: str) -> None:
        for name, line in lines.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n")
            (tmp_path / "bin" / name).chmod(0o755)

    return write
