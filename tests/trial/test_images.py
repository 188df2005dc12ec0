"""Pictures of any kind become squares of one size. Unreadable files are named, and too few pictures are refused."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.archives import noise

from rtm.core.errors import UserError
from rtm.data.archives import LARGEST
from rtm.metrics.images import load_images
from rtm.trial.images import FEWEST, squared, state_of, survey, write_squares


def folder_of(path: Path, number: int) -> Path:
    path.mkdir(exist_ok=True)
    for index in range(number):
        Image.fromarray(noise(40 + index, 60, 3, seed=index)).save(path / f"{index:02d}.png")
    return path


def test_any_mode_and_format_is_kept(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", FEWEST)
    kinds = {
        "L": "grey.png",
        "1": "two.png",
        "P": "few.gif",
        "CMYK": "print.jpg",
        "LA": "clear.tiff",
    }
    for number, (mode, name) in enumerate(kinds.items()):
        Image.fromarray(noise(50, 70, 3, seed=100 + number)).convert(mode).save(source / name)
    (source / "sub").mkdir()
    Image.fromarray(noise(50, 70, 3, seed=99)).save(source / "sub" / "deeper.WEBP", "WEBP")
    content = survey(source)
    assert len(content.pictures) == FEWEST + 6
    assert content.side == 50
    assert not content.broken
    squares = write_squares(source, content.pictures, tmp_path / "out", 32)
    assert squares.count == FEWEST + 6
    assert not squares.broken
    assert not squares.copies
    for path in (tmp_path / "out").iterdir():
        with Image.open(path) as image:
            assert image.size == (32, 32)
            assert image.mode == "RGB"


def test_links_are_followed_as_by_evaluate_and_no_folder_counts_twice(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", 20)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for number in range(20):
        Image.fromarray(noise(40, 60, 3, seed=200 + number)).save(elsewhere / f"{number:02d}.png")
    (source / "linked").symlink_to(elsewhere)
    (source / "same").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(source)
    content = survey(source)
    assert len(content.pictures) == len(load_images(source)) == 40
    assert content.linked == 20
    assert write_squares(source, content.pictures, tmp_path / "out", 32).count == 40
    before = state_of(source)
    (elsewhere / "19.png").unlink()
    assert state_of(source) != before
    (source / "gone.png").symlink_to(tmp_path / "nothing")
    assert survey(source).broken == ("gone.png",)


def test_a_photograph_stands_upright() -> None:
    """A camera writes its orientation into the file, and viewers turn the picture accordingly."""
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[0, 0] = 255
    image = Image.fromarray(pixels)
    image.getexif()[0x0112] = 3  # the camera was turned by 180 degrees
    assert np.asarray(squared(image, 8))[7, 7].min() == 255


def test_deep_colours_keep_their_range() -> None:
    ramp = Image.fromarray(np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16))
    values = np.asarray(squared(ramp, 8))
    assert values[0, 0, 0] == 0
    assert values[-1, -1, 0] == 255
    assert 120 < values[4, 0, 0] < 140


def test_transparent_parts_are_white() -> None:
    assert np.asarray(squared(Image.new("RGBA", (9, 9), (200, 0, 0, 0)), 4)).min() == 255


def test_the_middle_of_a_wide_picture_is_taken() -> None:
    pixels = np.zeros((10, 30, 3), np.uint8)
    pixels[:, 10:20] = 255
    assert np.asarray(squared(Image.fromarray(pixels), 10)).min() == 255


def test_broken_pictures_copies_and_other_files_are_reported(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", FEWEST)
    whole = (source / "00.png").read_bytes()
    (source / "copy.png").write_bytes(whole)
    (source / "text.jpg").write_bytes(b"not an image")
    (source / "cut.jpg").write_bytes(jpeg(tmp_path)[:-200])
    (source / "notes.txt").write_text("x", "utf-8")
    content = survey(source)
    assert content.broken == ("text.jpg",)
    assert content.others == ("notes.txt",)
    squares = write_squares(source, content.pictures, tmp_path / "out", 32)
    assert (squares.count, squares.broken, squares.copies) == (FEWEST, ("cut.jpg",), 1)


def jpeg(folder: Path) -> bytes:
    Image.fromarray(noise(64, 64, 3)).save(folder / "whole.jpg")
    return (folder / "whole.jpg").read_bytes()


def test_an_archive_is_read_as_a_folder(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", FEWEST)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in source.iterdir():
            archive.write(path, path.name)
    content = survey(tmp_path / "all.zip")
    assert content.pictures == survey(source).pictures
    assert write_squares(tmp_path / "all.zip", content.pictures, tmp_path / "out", 32).count == FEWEST


def test_too_few_are_refused_with_a_sentence(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", FEWEST - 1)
    (source / "bad.png").write_bytes(b"x")
    with pytest.raises(UserError, match=rf"in has {FEWEST - 1} images .* at least {FEWEST} .*Not used: bad\.png"):
        survey(source)
    with pytest.raises(UserError, match="does not exist; give a folder of images"):
        survey(tmp_path / "nowhere")


def test_a_folder_may_hold_anything_beside_its_images(tmp_path: Path) -> None:
    """The folder has a film that would be too large for an archive, a link to nowhere, a circular link and a hidden
    file."""
    source = folder_of(tmp_path / "in", FEWEST)
    with open(source / "film.mov", "wb") as file:
        file.truncate(LARGEST + 1)
    (source / "gone.png").symlink_to("nowhere.png")
    (source / "circle").symlink_to(".")
    (source / ".thumbnail.png").write_bytes(b"x")
    content = survey(source)
    assert len(content.pictures) == FEWEST
    assert content.others == ("film.mov",)
    assert content.broken == ("gone.png",)
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(source / "film.mov", "film.mov")
    with pytest.raises(UserError, match=r"film\.mov .*If it is yours, unpack it and give the folder"):
        survey(tmp_path / "all.zip")


def test_one_image_is_no_folder(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", 1)
    with pytest.raises(UserError, match=r"00\.png is no folder and no whole zip or tar; give a folder of images"):
        survey(source / "00.png")


def test_other_images_are_another_state(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", 3)
    before = state_of(source)
    (source / "notes.txt").write_text("x", "utf-8")
    assert state_of(source) == before
    folder_of(source, 4)
    assert state_of(source) != before


def test_copies_do_not_count(tmp_path: Path) -> None:
    source = folder_of(tmp_path / "in", FEWEST - 1)
    (source / "copy.png").write_bytes((source / "00.png").read_bytes())
    with pytest.raises(UserError, match=f"has {FEWEST - 1} images"):
        write_squares(source, survey(source).pictures, tmp_path / "out", 32)
    assert not (tmp_path / "out").exists()
