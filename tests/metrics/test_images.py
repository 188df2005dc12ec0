"""Images of any origin are the same from every kind of file, and a message names each bad file."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from PIL import ExifTags, Image
from support.images import Pixels, pixels

from rtm.core.errors import UserError
from rtm.core.files import digest_of_all
from rtm.metrics.images import Selection, load_images, some_of


def write_folder(folder: Path, images: Pixels) -> Path:
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number:04}.png")
    return folder


def test_a_folder_an_array_and_an_archive_hold_the_same_images(tmp_path: Path) -> None:
    images = pixels(11)
    write_folder(tmp_path / "folder", images)
    (tmp_path / "folder" / "notes.txt").write_text("not an image", "utf-8")
    (tmp_path / "folder" / "._0000.png").write_text("what macOS adds", "utf-8")
    write_folder(tmp_path / "folder" / ".thumbnails", pixels(3, seed=1)[:, ::2, ::2])
    np.save(tmp_path / "images.npy", images)
    np.save(tmp_path / "first.npy", images.transpose(0, 3, 1, 2))
    np.save(tmp_path / "floats.npy", images.astype(np.float32) / 255)
    np.savez(tmp_path / "images.npz", images, labels=np.arange(11))
    for name in ("folder", "images.npy", "first.npy", "floats.npy", "images.npz"):
        loaded = load_images(tmp_path / name)
        assert len(loaded) == 11
        assert_array_equal(loaded[0:11], images)
        assert_array_equal(loaded[4:7], images[4:7])


def test_links_are_followed_and_no_folder_counts_twice(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", pixels(3))
    elsewhere = write_folder(tmp_path / "elsewhere", pixels(4, seed=1))
    (folder / "linked").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(folder)
    (folder / "same").symlink_to(elsewhere)
    images = load_images(folder)
    assert len(images) == 7
    assert_array_equal(images[3:7], pixels(4, seed=1))
    assert digest_of_all(folder) != digest_of_all(write_folder(tmp_path / "alone", pixels(3)))


def test_a_subset_is_random_and_known_by_its_content(tmp_path: Path) -> None:
    images = pixels(60)
    first = some_of(60, 20, 0)
    again = some_of(60, 20, 0)
    other = some_of(60, 20, 1)
    assert_array_equal(first, again)
    assert len(set(first)) == 20
    assert list(first) == sorted(first)
    assert set(first) not in (set(other), set(range(20)))
    assert_array_equal(some_of(60, 60, 1), np.arange(60))
    folder = load_images(write_folder(tmp_path / "folder", images))
    kinds = [Selection(images, first), Selection(folder, first), Selection(images[first], np.arange(20))]
    for chosen in kinds:
        assert_array_equal(chosen[5:9], images[first[5:9]])
    assert len({chosen.sha256 for chosen in kinds}) == 1
    assert Selection(images, other).sha256 != kinds[0].sha256 != Selection(images, first[::-1].copy()).sha256


def test_a_bad_image_is_named(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", pixels(3))
    for name, image in {
        "grey": Image.new("L", (8, 8)),
        "alpha": Image.new("RGBA", (8, 8)),
        "large": Image.new("RGB", (9, 8)),
    }.items():
        image.save(folder / f"{name}.png")
        with pytest.raises(UserError, match=rf"{name}\.png is .*(RGB|9 x 8 px)"):
            Selection(load_images(folder), np.arange(4))
        (folder / f"{name}.png").unlink()
    (folder / "text.png").write_text("no image at all", "utf-8")
    with pytest.raises(UserError, match=r"text\.png cannot be read as an image"):
        Selection(load_images(folder), np.arange(4))
    assert len(Selection(load_images(folder), np.arange(3))) == 3  # only the measured images are read


def deep_png(pixels: Pixels) -> bytes:
    """A PNG with 16 bits a channel; Pillow reads such files but does not write them."""
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + (row.astype(">u2") * 257).tobytes() for row in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    packed = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def test_pixels_that_would_not_be_the_image_are_refused(tmp_path: Path) -> None:
    """Pillow reduces 16 bits to 8, gives only the first picture of an animation, and does not turn photographs."""
    folder = write_folder(tmp_path / "folder", pixels(3))
    one = Image.fromarray(pixels(1)[0])
    turned = one.getexif()
    turned[ExifTags.Base.Orientation] = 6
    (folder / "deep.png").write_bytes(deep_png(pixels(1)[0]))
    one.save(folder / "moving.png", save_all=True, append_images=[Image.fromarray(pixels(1, seed=1)[0])])
    one.save(folder / "turned.jpg", exif=turned)
    for name, words in {"deep.png": "16 bits a channel", "moving.png": "an animation", "turned.jpg": "upright"}.items():
        with pytest.raises(UserError, match=rf"{name} .*{words}"):
            Selection(load_images(folder), np.arange(4))
        (folder / name).unlink()
    turned[ExifTags.Base.Orientation] = 1
    one.save(folder / "upright.jpg", exif=turned)
    assert len(Selection(load_images(folder), np.arange(4))) == 4


def test_no_image_is_left_out_without_a_word(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", pixels(3))
    elsewhere = write_folder(tmp_path / "elsewhere", pixels(2))
    (folder / "linked").symlink_to(elsewhere)
    for link in (folder / "gone.png", folder / "class", elsewhere / "gone.png"):
        link.symlink_to(tmp_path / "nothing")
        with pytest.raises(UserError, match=rf"{link.name} is a link to nothing"):
            load_images(folder)
        link.unlink()
    (folder / ".hidden").symlink_to(tmp_path / "nothing")
    (folder / "x.TIFF").write_bytes(b"")
    with pytest.raises(UserError, match=r"x\.TIFF is of a format that is not read"):
        load_images(folder)
    (folder / "x.TIFF").unlink()
    assert len(load_images(folder)) == 5


def test_floats_are_checked_before_they_are_asked_for(tmp_path: Path) -> None:
    images = pixels(1200).astype(np.float32) / 255
    images[1100, 0, 0, 0] = -0.01
    np.save(tmp_path / "floats.npy", images)
    loaded = load_images(tmp_path / "floats.npy")
    assert len(Selection(loaded, np.arange(1100))) == 1100
    with pytest.raises(UserError, match="outside 0 to 1"):
        Selection(loaded, np.arange(1200))


@pytest.mark.parametrize(
    "damage", [lambda whole: whole[: len(whole) // 2], lambda whole: whole.replace(b"IDAT", b"ID\0T")]
)
def test_a_damaged_image_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    folder = write_folder(tmp_path / "folder", pixels(3))
    (folder / "0001.png").write_bytes(damage((folder / "0001.png").read_bytes()))
    with pytest.raises(UserError, match=r"0001\.png cannot be read as an image"):
        load_images(folder)[0:3]


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((4, 8, 8), np.uint8), "shape"),
        (np.zeros((4, 8, 8, 1), np.uint8), "in colour"),
        (np.zeros((4, 8, 8, 4), np.uint8), "in colour"),
        (np.zeros((0, 8, 8, 3), np.uint8), "shape"),
        (np.zeros((4, 8, 8, 3), np.int64), "int64"),
        (np.eye(8, dtype=np.uint8)[None, :, :, None].repeat(3, axis=3), "only 0 and 1 as uint8"),
        (np.full((4, 8, 8, 3), -0.5, np.float32), "outside 0 to 1"),
        (np.full((4, 8, 8, 3), 255.0), "outside 0 to 1"),
        (np.full((4, 8, 8, 3), np.nan), "NaN"),
        (np.array([{"a": 1}]), "numpy file of numbers"),
    ],
)
def test_a_bad_array_is_named(tmp_path: Path, array: NDArray[np.generic], words: str) -> None:
    np.save(tmp_path / "bad.npy", array)
    with pytest.raises(UserError, match=rf"bad\.npy .*{words}"):
        load_images(tmp_path / "bad.npy")[0:4]


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "images.txt").write_text("", "utf-8")
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    np.savez(tmp_path / "two.npz", a=pixels(2), b=pixels(2))
    np.savez(tmp_path / "objects.npz", np.array([{"a": 1}]))
    (tmp_path / "short.npz").write_bytes((tmp_path / "two.npz").read_bytes()[:300])
    for name, words in {
        "absent": "does not exist",
        "empty": "holds no images",
        "images.txt": "neither",
        "broken.npz": "damaged",
        "short.npz": "damaged",
        "objects.npz": "as a numpy file of numbers",
        "two.npz": "2 arrays",
    }.items():
        with pytest.raises(UserError, match=words):
            load_images(tmp_path / name)
