"""Foreign images: four formats, complete, of limited size. Reading them starts no program."""

import io
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from support.archives import encoded, noise

from rtm.core.errors import UserError
from rtm.data import pictures
from rtm.data.datasets import Pixels
from rtm.data.pictures import open_image
from rtm.metrics.images import load_images

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n(%pipe%touch ran) (w) file\n%%EOF\n"


def pixels(content: bytes) -> Pixels:
    with open_image(io.BytesIO(content), "x.png", "make it again") as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("kind", ["PNG", "BMP"])
def test_pixels_come_as_they_were_saved(kind: str) -> None:
    assert np.array_equal(pixels(encoded(noise(5, 7, 3), kind)), noise(5, 7, 3))


def test_postscript_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    with pytest.raises(UserError, match=r"x\.png cannot be read as an image .*; make it again"):
        pixels(POSTSCRIPT)
    (tmp_path / "x.png").write_bytes(POSTSCRIPT)
    with pytest.raises(UserError, match=r"x\.png cannot be read as an image"):
        load_images(tmp_path)[0:1]


@pytest.mark.parametrize("kind", ["GIF", "TIFF", "PPM", "ICO", "TGA"])
def test_other_formats_are_refused_under_any_name(kind: str) -> None:
    file = io.BytesIO()
    Image.fromarray(noise(16, 16, 3)).save(file, kind)
    with pytest.raises(UserError, match="PNG, JPEG, WEBP, BMP"):
        pixels(file.getvalue())


def test_no_flipped_bit_of_a_png_gives_other_pixels() -> None:
    """Stripes compress so well that Pillow alone accepts 178 of these damaged files."""
    stripes = np.broadcast_to(np.arange(64, dtype=np.uint8)[:, None], (64, 64, 3))
    content = encoded(np.ascontiguousarray(stripes))
    for bit in range(8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            found = pixels(bytes(damaged))
        except UserError:
            continue
        assert np.array_equal(found, stripes)


def test_a_large_image_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "LARGEST", 100)
    assert pixels(encoded(noise(10, 10, 3))).shape == (10, 10, 3)
    with pytest.raises(UserError, match="cannot be read"):
        pixels(encoded(noise(10, 11, 3)))
