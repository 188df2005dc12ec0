"""SLURM's commands for tests without a cluster, and a small package."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.small_package import package, repository

from rtm.pipeline import site

__all__ = ["package", "programs", "repository"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that writes stand-ins for SLURM's commands, each one line of shell."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    site._partitions.cache_clear()
    site.nodes.cache_clear()
    (tmp_path / "bin").mkdir()

    def write(**lines: str) -> None:
        for name, line in lines.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{line}\n", "utf-8")
            (tmp_path / "bin" / name).chmod(0o755)

    return write
