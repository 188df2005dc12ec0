"""The beginning of a trial: its name, its length, what it says, and the same command again."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console
from support import PARAMS
from support.archives import noise

from rtm.config import load
from rtm.config.base import Name
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.readers import matches
from rtm.stages import stages
from rtm.stages.dataset import Dataset
from rtm.trial import beginning
from rtm.trial.beginning import LONGEST, Pace, alone, announce, go_on, is_begun, name_of, provisional, remarks, timed
from rtm.trial.images import Squares, Survey
from rtm.trial.recipe import FEWEST_STEPS, Choice, Machine


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("Cats & dogs", "cats_dogs"),
        ("2024.zip", "images_2024"),
        ("\u732b", "images"),
        ("demo", "images_demo"),  # `snakemake demo` already has another meaning
        ("x" * 300, "x" * LONGEST),
        *((stage, f"images_{stage}") for stage in stages()),
    ],
)
def test_every_folder_has_a_name(folder: str, name: str) -> None:
    assert name_of(Path(folder)) == name == name_of(Path(name))
    assert matches(name, Name)


def test_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with alone("cats"):
        with (
            pytest.raises(UserError, match=r"Another `rtm try` works on try/cats; look at it with `rtm status"),
            alone("cats"),
        ):
            pass
        with alone("dogs"):
            pass
    with alone("cats"):
        pass


CHOICE = Choice("cats", 100, 32, Machine(2, 0), 48)
SHA256 = "0" * 64
PACE = Pace(step=0.02, pooled=0.001)
NOTHING: dict[str, float | None] = dict.fromkeys(("minutes", "epochs", "resolution"))


@pytest.fixture
def console() -> Console:
    return Console(
        width=200,
        record=True,
        markup=False,
        highlight=False,
        file=io.StringIO(),
    )


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The images of a trial that was begun with --minutes 5."""
    (tmp_path / "params").symlink_to(PARAMS)
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "new\nline"
    folder.mkdir()
    Image.new("RGB", (9, 9)).save(folder / "one.png")
    beginning.write(CHOICE, SHA256, folder, 0.5, {**NOTHING, "minutes": 5})
    return folder


def test_changed_images_are_noticed(source: Path, console: Console) -> None:
    assert is_begun("cats", source)
    go_on("cats", source, NOTHING, console)
    assert "other images" not in console.export_text()
    Image.new("RGB", (9, 9)).save(source / "two.png")
    go_on("cats", source, NOTHING, console)
    assert "has other images than at the beginning" in console.export_text()
    with pytest.raises(UserError, match=r"is a trial of .*; give this one another name with --name"):
        is_begun("cats", source.parent / "dogs")


@pytest.mark.parametrize(
    ("option", "same", "other", "message"),
    [
        ("minutes", 5.0, 6.0, "with --minutes 5, not 6"),
        ("epochs", 48, 3, "with --epochs 48, not 3"),
        ("resolution", 32, 64, "with --resolution 32, not 64"),
    ],
)
def test_an_option_may_be_given_again_unchanged(
    option: str, same: float, other: float, message: str, source: Path, console: Console
) -> None:
    go_on("cats", source, {**NOTHING, option: same}, console)
    with pytest.raises(UserError, match=f"try/cats is a trial {message}; leave --{option} out"):
        go_on("cats", source, {**NOTHING, option: other}, console)


def test_an_option_that_was_not_given_is_new(source: Path, console: Console) -> None:
    beginning.write(CHOICE, SHA256, source, 0.5, NOTHING)
    with pytest.raises(UserError, match="a trial without --minutes, not 5"):
        go_on("cats", source, {**NOTHING, "minutes": 5}, console)


def test_damaged_notes_are_named(source: Path) -> None:
    Path("try/cats/begun.json").write_text("{}", "utf-8")
    with pytest.raises(UserError, match=r"begun\.json is damaged .*; delete try/cats to begin anew"):
        is_begun("cats", source)


@pytest.mark.parametrize("epochs", [1, 48, 50, 200])  # after 48 a ninth round begins
def test_a_training_takes_its_steps_and_its_rounds(epochs: int) -> None:
    choice = replace(CHOICE, epochs=epochs)
    experiment = provisional(choice, SHA256).experiments["cats_rtm"]
    recipe = experiment.recipe
    images = experiment.dataset.count
    assert recipe.imle is not None
    assert choice.steps == experiment.steps()
    seconds = 0.0
    seen = 0
    due = 0
    for _ in range(experiment.steps()):
        if seen >= due:  # a round begins
            seconds += recipe.imle.pool * images * PACE.pooled
            due += images * recipe.imle.refresh
        seconds += PACE.step
        seen += recipe.training.batch
    assert PACE.seconds(choice) == pytest.approx(seconds)


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "_pace", lambda *_: PACE)


@pytest.mark.usefixtures("pace")
@pytest.mark.parametrize(("cores", "gpus", "minutes"), [(1, 0, 60), (2, 0, 2), (2, 0, 10), (16, 0, 60), (8, 1, 60)])
def test_the_trial_takes_about_the_minutes_that_were_given(cores: int, gpus: int, minutes: int) -> None:
    """The time includes both trainings: at the same time with two or more cores and no GPU, otherwise one after the
    other."""
    choice, seconds = timed(replace(CHOICE, machine=Machine(cores, gpus)), SHA256, minutes, None)
    assert seconds == pytest.approx(PACE.seconds(choice) * (1 if cores > 1 and not gpus else 2))
    assert 0.9 * minutes * 60 < seconds < 1.1 * minutes * 60


@pytest.mark.usefixtures("pace")
def test_the_length_is_the_machines_or_as_given(monkeypatch: pytest.MonkeyPatch) -> None:
    assert timed(CHOICE, SHA256, None, None) == timed(CHOICE, SHA256, CHOICE.machine.minutes, None)
    assert timed(CHOICE, SHA256, None, 7)[0] == replace(CHOICE, epochs=7)
    monkeypatch.setattr(beginning, "_pace", lambda *_: Pace(step=100.0, pooled=1.0))
    choice, seconds = timed(CHOICE, SHA256, 1.0, None)
    assert choice.steps >= FEWEST_STEPS
    assert seconds > 60


def test_each_picture_that_is_not_used_as_it_is_is_said() -> None:
    few, many = (tuple(f"{number}.png" for number in range(count)) for count in (100, 1234))
    assert remarks(Survey(few, 32, (), ()), Squares(100, (), 0), CHOICE) == []
    choice = Choice("cats", 500, 64, Machine(2, 0), 48)
    sentences = remarks(
        Survey(many, 40, ("cut.jpg",), ("film.mov", "notes.txt"), linked=617), Squares(498, ("bad.png",), 3), choice
    )
    assert sentences == [
        "Left out, since they cannot be read: cut.jpg, bad.png.",
        "Left out, since they are copies of other images: 3.",
        "Links are followed: 617 of 1,234 images are elsewhere.",
        "Left out, since they are no images of a kind that is read here: film.mov, notes.txt.",
        "500 of 1,234 images are used, spread evenly: more need a GPU.",
        "Most images have fewer than 64 px; they are enlarged.",
    ]


@pytest.mark.usefixtures("pace")
def test_a_beginning_prepares_the_images_and_says_what_it_leaves_out(source: Path, console: Console) -> None:
    for number in range(20):
        Image.fromarray(noise(40, 40, 3, seed=number)).save(source / f"{number}.png")
    (source / "broken.jpg").write_bytes(b"x")
    beginning.begin("dogs", source, {**NOTHING, "resolution": 32}, console)
    text = console.export_text()
    assert "Left out, since they cannot be read: broken.jpg." in text
    assert "21 at 32 x 32 px" in text
    config = load("try/dogs")
    dataset = config.params.datasets["dogs"]
    assert dataset.sha256 == digest(Dataset().path(config, "images", dataset="dogs"))
    assert is_begun("dogs", source)
    go_on("dogs", source, {**NOTHING, "resolution": 32}, console)


@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(("seconds", "minutes"), [(5.0, "1 minute"), (89.0, "1 minute"), (91.0, "2 minutes")])
def test_the_cost_is_said_before_it_is_paid(seconds: float, minutes: str, console: Console) -> None:
    announce(CHOICE, seconds, console)
    lines = {line[:16].strip(): line[17:].strip() for line in console.export_text().splitlines()}
    assert lines["images"] == "100 at 32 x 32 px"
    assert lines["parameters"] == "try/cats/params.yaml"
    assert lines["training"] == "960 steps of 5 images each, by RS-IMLE, on 2 CPU cores"
    assert lines["time"] == f"about {minutes} of training, measured on this machine just now"
    assert lines["pictures so far"].startswith("try/cats/reports/index.html")
