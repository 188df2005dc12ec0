"""The pilot reports the same numbers as trainings with its radii, and refuses other methods."""

import json
from pathlib import Path
from statistics import fmean

import pytest
from support import smoke_workspace

from rtm.core.errors import UserError
from rtm.training.pilot import Radius, advice, pilot


@pytest.mark.slow(seconds=3)
def test_it_reports_the_gap_of_a_training_with_each_radius(tmp_path: Path) -> None:
    setting = smoke_workspace.setting(tmp_path, smoke_workspace.experiment("shells_imle_rtm", batch=24))
    radii = list(pilot(setting, [0.0, 1.5], steps=8))  # 48 images make two steps a round
    assert [radius.epsilon for radius in radii] == [0.0, 1.5]
    assert radii[0].radius == radii[0].rejected == 0 < radii[1].radius
    assert radii[1].rejected > 0

    chosen = smoke_workspace.experiment("shells_imle_rtm", {"epsilon": 1.5}, batch=24, epochs=4)
    smoke_workspace.run(tmp_path, chosen).train()
    last = json.loads((tmp_path / "run/log.jsonl").read_text("utf-8").splitlines()[-1])
    method = smoke_workspace.run(tmp_path, chosen, "again").method
    gaps = [float(method.step(step)["matched_gap"]) for step in range(8)][::2]
    assert radii[1].gap == pytest.approx(fmean(gaps[2:]))
    assert gaps[3] == pytest.approx(last["matched_gap"], abs=1e-5)


def test_it_refuses_another_method(tmp_path: Path) -> None:
    setting = smoke_workspace.setting(tmp_path, smoke_workspace.experiment("afhq_stylegan2_ada_rtm"))
    with pytest.raises(UserError, match="not trained by RS-IMLE"):
        list(pilot(setting, [0.0], steps=1))


def test_it_advises_only_where_there_is_a_choice() -> None:
    small = Radius(0.5, 0.2, 0.0, 0.4)
    large = Radius(0.9, 0.36, 0.2, 0.3)
    assert "least at `epsilon: 0.9`; write it under imle of the recipe of some" in advice([small, large], "some")
    assert "compare it with others" in advice([large], "some")
