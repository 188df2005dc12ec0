"""`rtm try --export` adds a trial to params/, completely or not at all, and every scale still loads."""

import shutil
from pathlib import Path

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError
from rtm.trial import recipe
from rtm.trial.export import export
from rtm.trial.recipe import Choice, Machine


@pytest.fixture
def params(tmp_path: Path) -> Path:
    choice = Choice("cats", 100, 32, Machine(2, 0), 48)
    recipe.write(tmp_path / "try/cats/params.yaml", choice, "0" * 64, 0.5)
    images = tmp_path / "try/cats/downloads/cats"
    images.mkdir(parents=True)
    (images / "000001-a.png").write_bytes(b"x")
    return Path(shutil.copytree(PARAMS, tmp_path / "params"))


def test_the_entries_are_those_of_the_trial(params: Path) -> None:
    trial, before = load("try/cats", params), load("paper", params)
    assert "datasets.yaml" in export("cats", params)
    after = load("paper", params)
    for name, experiment in trial.experiments.items():
        assert after.experiments[name] == experiment
    assert {name: after.experiments[name] for name in before.experiments} == before.experiments
    assert after.params.tables["tab_cats"] == trial.params.tables["tab_cats"]
    assert load("smoke", params).experiments["cats_rtm"].steps() < 20
    assert (params.parent / "downloads/cats/000001-a.png").exists()


def test_nothing_is_written_over(params: Path) -> None:
    export("cats", params)
    before = {path.name: path.read_bytes() for path in params.iterdir()}
    with pytest.raises(UserError, match="cats is there already"):
        export("cats", params)
    assert {path.name: path.read_bytes() for path in params.iterdir()} == before


def test_an_unknown_trial_is_named(params: Path) -> None:
    with pytest.raises(UserError, match="There is no trial 'dogs'; there is cats"):
        export("dogs", params)
