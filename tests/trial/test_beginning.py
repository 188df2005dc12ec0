"""The name of a trial, one `rtm try` at a time, and images that have changed since it began."""

from pathlib import Path

import pytest
from PIL import Image

from rtm.config.base import Name
from rtm.core.errors import UserError
from rtm.core.files import matches
from rtm.lineage.job import Stage
from rtm.trial import beginning
from rtm.trial.beginning import LONGEST, alone, has_changed, is_begun, name_of
from rtm.trial.recipe import Choice, Machine


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("Cats & dogs", "cats_dogs"),
        ("2024.zip", "images_2024"),
        ("\u732b", "images"),
        ("demo", "images_demo"),  # `snakemake demo` already has another meaning
        ("x" * 300, "x" * LONGEST),
        *((stage, f"images_{stage}") for stage in Stage),
    ],
)
def test_every_folder_has_a_name(folder: str, name: str) -> None:
    assert name_of(Path(folder)) == name == name_of(Path(name)) and matches(name, Name)


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


def test_changed_images_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = tmp_path / "new\nline"
    source.mkdir()
    Image.new("RGB", (9, 9)).save(source / "one.png")
    beginning.write(Choice("cats", 16, 32, Machine(2, 0), 4), "0" * 64, source, 1.0)
    assert is_begun("cats", source) and not has_changed("cats", source)
    Image.new("RGB", (9, 9)).save(source / "two.png")
    assert is_begun("cats", source) and has_changed("cats", source)
