"""The messages of a trial: which pictures it does not use, how long it will take, and where its pictures are."""

import io
from pathlib import Path

import pytest
from rich.console import Console
from support import PARAMS, fake_results

from rtm.config import Config, load
from rtm.core.files import write_text
from rtm.lineage.receipts import Ledger
from rtm.lineage.recording import run_folder
from rtm.pipeline.graph import jobs
from rtm.trial import recipe
from rtm.trial.images import Kept, Survey
from rtm.trial.messages import announce, conclude, remarks
from rtm.trial.recipe import Choice, Machine

CHOICE = Choice("cats", 100, 32, Machine(2, 0), 48)
PICTURES = tuple(f"{number}.png" for number in range(100))


@pytest.fixture
def cats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A trial that has begun."""
    recipe.write(tmp_path / "try/cats/params.yaml", CHOICE, "0" * 64, 0.5)
    (tmp_path / "params").symlink_to(PARAMS)
    monkeypatch.chdir(tmp_path)
    return load("try/cats")


@pytest.fixture
def console() -> Console:
    return Console(width=200, record=True, markup=False, highlight=False, file=io.StringIO())


def test_nothing_is_said_of_pictures_that_are_all_used() -> None:
    assert remarks(Survey(PICTURES, 32, (), ()), Kept(100, (), 0), CHOICE) == []


def test_each_picture_that_is_not_used_as_it_is_is_said() -> None:
    many = tuple(f"{number}.png" for number in range(1234))
    choice = Choice("cats", 500, 64, Machine(2, 0), 48)
    found = remarks(Survey(many, 40, ("cut.jpg",), ("film.mov", "notes.txt")), Kept(498, ("bad.png",), 3), choice)
    assert found == [
        "Left out, since they cannot be read: cut.jpg, bad.png.",
        "Left out, since they are copies of other images: 3.",
        "Left out, since they are no images of a kind that is read here: film.mov, notes.txt.",
        "500 of 1,234 images are used, spread evenly: more need a GPU.",
        "Most images have fewer than 64 px; they are enlarged.",
    ]


@pytest.mark.parametrize(("seconds", "said"), [(5.0, "1 minute"), (89.0, "1 minute"), (91.0, "2 minutes")])
def test_the_cost_is_said_before_it_is_paid(cats: Config, seconds: float, said: str, console: Console) -> None:
    announce(cats, CHOICE, seconds, console)
    lines = {line[:16].strip(): line[17:].strip() for line in console.export_text().splitlines()}
    assert lines["images"] == "100 at 32 x 32 px" and lines["parameters"] == "try/cats/params.yaml"
    assert lines["training"] == "960 steps of 5 images each, by RS-IMLE, on 2 CPU cores"
    assert lines["time"] == f"about {said} of training, measured on this machine just now"
    assert lines["pictures so far"].startswith("try/cats/reports/index.html")


def test_without_numbers_the_last_grid_of_each_training_is_named(cats: Config, console: Console) -> None:
    graph = jobs(cats)
    for name, steps in (("cats_mlp", (80, 160)), ("cats_rtm", (80,))):
        for step in steps:
            write_text(run_folder(Ledger(), graph[f"train/{name}/seed0"]) / f"grid_{step:09d}.png", "")
    conclude(cats, False, console)
    said = console.export_text()
    grids = [Path(line).stem for line in said.splitlines() if line.endswith(".png")]
    assert grids == ["grid_000000160", "grid_000000080"]
    assert "rtm generate try/cats/cats_mlp\n" in said and "  try/cats/reports/index.html\n" in said


def test_with_numbers_the_distance_has_its_error(cats: Config, console: Console) -> None:
    for name, kid in (("cats_mlp", 0.0123), ("cats_rtm", 0.01)):
        protocol = cats.experiments[name].recipe.evaluation.protocols[0]
        fake_results.write_results(cats, cats.layout, name, {protocol: {"kid": kid, "kid_se": 0.0004}})
    conclude(cats, True, console)
    said = console.export_text()
    assert "KID ×10³ of cats_mlp: 12.3 ± 0.4 (standard error)" in said
    assert "KID ×10³ of cats_rtm: 10.0 ± 0.4 (standard error)" in said
    assert all(str(cats.layout.figure(name, ".png")) in said for name in cats.figures)
