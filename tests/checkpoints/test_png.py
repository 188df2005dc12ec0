"""Pictures: sheets pixel by pixel, and PNG files as Pillow reads them."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.archives import encoded, noise
from torch import Tensor

from rtm.checkpoints.png import LEAST, sheet, write_png
from rtm.core.errors import UserError


def slow_sheet(images: Tensor, columns: int, zoom: int) -> Tensor:
    count, side = images.shape[:2]
    cell = side * zoom
    out = torch.full((-(-count // columns) * cell, columns * cell, 3), 255, dtype=torch.uint8)
    for number in range(count):
        for row in range(cell):
            for column in range(cell):
                y = number // columns * cell + row
                x = number % columns * cell + column
                out[y, x] = images[number, row // zoom, column // zoom]
    return out


@pytest.mark.parametrize(("count", "side", "columns", "given"), [(5, 8, 3, None), (4, 20, 2, None), (3, 16, 2, 2)])
def test_a_sheet_has_every_image_in_its_place(
    count: int,
    side: int,
    columns: int,
    given: int | None,
) -> None:
    """Small images are enlarged, and places without an image are white."""
    images = torch.from_numpy(noise(count, side, side, 3))
    assert torch.equal(sheet(images, given), slow_sheet(images, columns, LEAST // side))


def test_large_images_are_neither_enlarged_nor_cut() -> None:
    images = torch.from_numpy(noise(2, 70, 70, 3))
    assert torch.equal(sheet(images, 1), images.flatten(0, 1))


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is there and was not drawn by rtm"):
        write_png(tmp_path, torch.zeros(2, 2, 3, dtype=torch.uint8), {})


def test_pillow_reads_the_pixels_and_what_they_are_about(tmp_path: Path) -> None:
    path = tmp_path / "x.png"
    pixels = noise(5, 7, 3)
    write_png(path, torch.from_numpy(255 - pixels), {})
    write_png(path, torch.from_numpy(pixels), {"seed": 3, "checkpoint": "Ærø"})  # replaces rtm's own file
    with Image.open(path) as image:
        np.testing.assert_array_equal(np.array(image), pixels)
        assert image.mode == "RGB"
        assert image.info == {"rtm": '{"checkpoint": "\\u00c6r\\u00f8", "seed": 3}'}
    assert [each.name for each in tmp_path.iterdir()] == ["x.png"]


@pytest.mark.parametrize("content", [b"", b"text", encoded(noise(5, 7, 3))])
def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.png is there and was not drawn by rtm; choose another --out"):
        write_png(tmp_path / "x.png", torch.from_numpy(noise(5, 7, 3)), {})
    assert (tmp_path / "x.png").read_bytes() == content
