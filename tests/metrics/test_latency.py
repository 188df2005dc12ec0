"""Latency: variants with the same depth share one time, also if their steps are shuffled."""

from dataclasses import replace
from pathlib import Path

from support import checkpoints, smoke_workspace
from support.checkpoints import IMLE

from rtm.config.experiments import Halting
from rtm.metrics.latency import measure_latency


def test_one_depth_has_one_latency(tmp_path: Path) -> None:
    sweep = (1, 2, Halting(tolerance=0.5, max=6))  # training uses 2
    chosen = replace(smoke_workspace.experiment(IMLE), sweep=sweep)
    checkpoints.write(tmp_path / "w.safetensors", chosen)
    latency = measure_latency(chosen, tmp_path / "w.safetensors")
    times = latency["sweep"]
    assert times.keys() == {"H1", "H2", "halt_0_5_6", "halt_0_5_6_shuffled"}
    assert times["H2"] == latency["time_ms"]
    assert times["halt_0_5_6"] == times["halt_0_5_6_shuffled"] > 0
