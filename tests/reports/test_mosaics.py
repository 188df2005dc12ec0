"""Pictures are in the right places: the same number at the same place, complete, in the resolution for print."""

from itertools import groupby

import numpy as np
import pytest
from support.reports import figure

from rtm.core.errors import UserError
from rtm.reports import mosaics

NAMES = ["baseline", "RTM"]


def gallery(offset: int, samples: int = 12) -> dict[str, mosaics.Images]:
    """Pictures of 8 px with one shade each: number i of the gallery has shade offset + i."""

    def shades(*shape: int) -> mosaics.Images:
        levels = offset + np.arange(np.prod(shape), dtype=np.uint8)
        pictures = levels.reshape(*shape, 1, 1, 1)
        return np.broadcast_to(pictures, (*shape, 8, 8, 3)).copy()

    return {
        "samples": shades(samples),
        "slerp": shades(2, 5),
        "queries": np.full((4, 8, 8, 3), 250, np.uint8),
        "neighbours": shades(4, 3),
    }


def shades_of(image: mosaics.Images) -> list[list[int]]:
    """The shades of the tiles, read row by row; white gaps separate the tiles."""
    rows = [[int(level) for level in row if level != mosaics.WHITE] for row in image[..., 0]]
    distinct = [list(dict.fromkeys(row)) for row in rows if row]
    return [row for row, _ in groupby(distinct)]


def test_equal_places_of_a_sheet_hold_the_same_number() -> None:
    chosen = figure("samples", rows=2, columns=3, skip=2)
    left, right = mosaics.samples(chosen, NAMES, [gallery(10), gallery(110)])
    assert (left.title, right.title) == ("baseline", "RTM")
    assert shades_of(left.image) == [[12, 13, 14], [15, 16, 17]]
    assert shades_of(right.image) == [[112, 113, 114], [115, 116, 117]]


def test_a_small_gallery_fills_whole_rows() -> None:
    (sheet,) = mosaics.samples(figure("samples", rows=80, columns=5), NAMES[:1], [gallery(0)])
    assert shades_of(sheet.image) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_the_baseline_stands_above_rtm() -> None:
    (sheet,) = mosaics.pairs(figure("pairs", rows=2, columns=2), NAMES, [gallery(0), gallery(100)])
    assert shades_of(sheet.image) == [[0, 1], [100, 101], [2, 3], [102, 103]]
    assert [label for _, label in sheet.row_labels] == ["baseline", "RTM"] * 2
    for (centre, _), shades in zip(sheet.row_labels, shades_of(sheet.image), strict=True):
        assert sheet.image[round(centre), 0, 0] == shades[0]


def test_strips_keep_their_ends() -> None:
    (strip,) = mosaics.slerp(figure("slerp", rows=2, columns=3), NAMES[:1], [gallery(0)])
    assert shades_of(strip.image) == [[0, 2, 4], [5, 7, 9]]


TWO = [[250, 0, 1], [250, 100, 101], [250, 3, 4], [250, 103, 104]]
FOUR = [[250, 0, 1, 3, 4], [250, 100, 101, 103, 104], [250, 6, 7, 9, 10], [250, 106, 107, 109, 110]]


@pytest.mark.parametrize(("queries", "expected"), [(2, TWO), (4, FOUR)])
def test_neighbours_stand_beside_their_query(queries: int, expected: list[list[int]]) -> None:
    """More than three queries stand in two columns."""
    chosen = figure("neighbours", rows=queries, columns=2)
    (sheet,) = mosaics.neighbours(chosen, NAMES, [gallery(0), gallery(100)])
    assert [row for row in shades_of(sheet.image) if len(row) > 1] == expected


def test_neighbours_of_different_queries_are_not_compared() -> None:
    other = gallery(100)
    other["queries"][0] = 0
    with pytest.raises(UserError, match="different queries"):
        mosaics.neighbours(figure("neighbours"), NAMES, [gallery(0), other])


def test_large_pictures_shrink_to_what_print_resolves() -> None:
    images = {"samples": np.zeros((4, 512, 512, 3), np.uint8)}
    (sheet,) = mosaics.samples(figure("samples", rows=1, columns=4), NAMES[:1], [images])
    assert 2000 < sheet.image.shape[1] < 2100
