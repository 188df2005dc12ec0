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
    trial = load("try/cats", params)
    before = load("paper", params)
    assert "datasets.yaml" in export("cats", params)
    after = load("paper", params)
    for name, experiment in trial.experiments.items():
        assert after.experiments[name] == experiment
    assert {name: after.experiments[name] for name in before.experiments} == before.experiments
    assert after.params.tables["tab_cats"] == trial.params.tables["tab_cats"]
    assert load("smoke", params).experiments["cats_rtm"].steps() < 20
    assert (params.parent / "downloads/cats/000001-a.png").exists()


def test_what_was_there_stays_as_it_was(params: Path) -> None:
    before = {path: path.read_text("utf-8") for path in params.glob("*.yaml")}
    export("cats", params)
    assert all(path.read_text("utf-8").startswith(text.rstrip()) for path, text in before.items())


def test_a_section_on_one_line_is_refused(params: Path) -> None:
    trial = params.parent / "try/cats/params.yaml"
    head, entries = trial.read_text("utf-8").split("mappers:", 1)
    lines = entries.splitlines(keepends=True)
    mappers = ", ".join(line.strip() for line in lines[1:3])
    trial.write_text(f"{head}mappers: {{{mappers}}}\n{''.join(lines[3:])}", "utf-8")
    before = {path: path.read_bytes() for path in params.iterdir()}
    with pytest.raises(UserError, match=r"cats/params\.yaml: write mappers with one entry below the other"):
        export("cats", params)
    assert {path: path.read_bytes() for path in params.iterdir()} == before


def test_nothing_is_written_over(params: Path) -> None:
    export("cats", params)
    before = {path.name: path.read_bytes() for path in params.iterdir()}
    with pytest.raises(UserError, match="cats is there already"):
        export("cats", params)
    assert {path.name: path.read_bytes() for path in params.iterdir()} == before


def test_an_unknown_trial_is_named(params: Path) -> None:
    with pytest.raises(UserError, match="There is no trial 'dogs'; there is cats"):
        export("dogs", params)
