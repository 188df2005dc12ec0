"""Latency: variants with the same depth share one time, also if their steps are shuffled."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import checkpoints, smoke_workspace
from support.checkpoints import IMLE

from rtm.config.experiments import Halting
from rtm.config.parameters import Depth
from rtm.metrics.latency import ATTEMPTS, Timing, calmest, measure_latency


def test_one_depth_has_one_latency(tmp_path: Path) -> None:
    sweep = (1, 2, Halting(tolerance=0.5, max=6))  # training uses 2
    chosen = replace(smoke_workspace.experiment(IMLE), sweep=sweep)
    checkpoints.write(tmp_path / "w.safetensors", chosen)
    latency = measure_latency(chosen, tmp_path / "w.safetensors")
    times = latency["sweep"]
    assert times.keys() == {"H1", "H2", "halt_0_5_6", "halt_0_5_6_shuffled"}
    assert times["H2"] == latency["time_ms"]
    assert times["halt_0_5_6"] == times["halt_0_5_6_shuffled"] > 0
    assert latency["quartiles_ms"].keys() == {"native", *times}
    for variant, (low, high) in latency["quartiles_ms"].items():
        assert low <= {"native": latency["time_ms"], **times}[variant] <= high
    assert 1 <= latency["attempts"] <= ATTEMPTS


DEPTHS = [Depth(H=1), Depth(H=2)]
CALM = [1.0, 1.1, 1.2, 1.3, 9.0]
WILD = [1.0, 1.0, 1.5, 2.0, 2.0]


def timing(times: list[float], load: float) -> Timing:
    return Timing({DEPTHS[0]: CALM, DEPTHS[1]: times}, load, images=2)


def test_the_median_lies_between_the_quartiles_and_one_wild_pass_does_not_count() -> None:
    assert timing(CALM, 0.5).milliseconds(DEPTHS[1]) == (550.0, 600.0, 650.0)
    assert timing([3.0], 0.5).milliseconds(DEPTHS[1]) == (1500.0, 1500.0, 1500.0)


@pytest.mark.parametrize(
    ("times", "load", "is_disturbed"), [(CALM, 0.5, False), (CALM, 1.0, False), (CALM, 1.1, True), (WILD, 0.5, True)]
)
def test_a_spread_above_a_third_or_a_load_above_the_cores_disturbs(
    times: list[float], load: float, is_disturbed: bool
) -> None:
    assert timing(times, load).is_disturbed == is_disturbed


def test_a_disturbed_measurement_is_repeated_and_then_the_calmest_one_is_marked() -> None:
    second = iter([timing(WILD, 0.5), timing(CALM, 0.5)])
    assert calmest(lambda: next(second)) == (timing(CALM, 0.5), 2)
    busy = iter([timing(WILD, 2.0), timing(CALM, 2.0), timing(WILD, 3.0)])
    kept, attempts = calmest(lambda: next(busy))
    assert (kept, attempts) == (timing(CALM, 2.0), ATTEMPTS)
    assert kept.is_disturbed


def test_the_load_of_the_machine_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = smoke_workspace.experiment(IMLE)
    checkpoints.write(tmp_path / "w.safetensors", chosen)
    monkeypatch.setattr("os.getloadavg", lambda: (12.0, 0.0, 0.0))
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    latency = measure_latency(chosen, tmp_path / "w.safetensors")
    assert latency["load"] == 3.0
    assert latency["attempts"] == ATTEMPTS
    assert latency["disturbed"] is True
