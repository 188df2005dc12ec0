"""Latency: variants with the same depth share one time."""

from dataclasses import replace
from pathlib import Path

from support import smoke_workspace
from support.checkpoints import IMLE

from rtm.metrics.latency import measure_latency


def test_one_depth_has_one_latency(tmp_path: Path) -> None:
    chosen = replace(smoke_workspace.experiment(IMLE), sweep=(1, 2))  # training uses 2
    smoke_workspace.run(tmp_path, chosen).export(tmp_path / "w.safetensors", tmp_path / "curve.csv", {})
    measured = measure_latency(chosen, tmp_path / "w.safetensors")
    assert measured["sweep"].keys() == {"H1", "H2"} and measured["sweep"]["H2"] == measured["time_ms"]
