"""Figures of images: samples, interpolations, neighbours and pairs, each as one array."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rtm.config import Config
from rtm.config.reports import FigureEntry
from rtm.core.errors import UserError
from rtm.core.readers import reading
from rtm.reports.commands import making, missing
from rtm.stages.gallery import Gallery as GalleryStage

Images = NDArray[np.uint8]
Gallery = dict[str, Images]
WIDTH = 6.75  # text width of a page in inches
DPI = 300
WHITE = 255
TINY = 64  # pixels; smaller pictures are enlarged without smoothing, which viewers would do
AXES = {"samples": 4, "slerp": 5, "queries": 4, "neighbours": 5}


@dataclass(frozen=True)
class Panel:
    """One picture of a figure, with its title and row labels."""

    title: str
    image: Images  # (height, width, 3)
    row_labels: tuple[tuple[float, str], ...] = ()  # centre of the row in pixels, and its name


def read_gallery(config: Config, name: str) -> Gallery:
    """The images of an experiment that figures may show: samples, slerp, queries, neighbours."""
    job = GalleryStage().job(config, experiment=name, seed=config.experiment(name).seeds[0])
    if not job.first.exists():
        raise UserError(missing(job))
    remedy = f"delete it and make it again with `{making(job)}`"
    with reading(job.first, remedy), open(job.first, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        gallery = {key: file[key] for key in AXES}
        for key, images in gallery.items():
            assert images.dtype == np.uint8 and images.shape[-1] == 3, "not images"
            assert images.ndim == AXES[key], "other axes"
            assert len(images), f"no {key}"
    return gallery


def samples(figure: FigureEntry, names: Sequence[str], galleries: Sequence[Gallery]) -> list[Panel]:
    """One sheet for each experiment, side by side. Equal places have equal latents."""
    panels = []
    for name, gallery in zip(names, galleries, strict=True):
        images = gallery["samples"][figure.skip : figure.images]
        picture = sheet(images, figure.columns, beside=len(galleries))
        panels.append(Panel(name, picture))
    return panels


def sheet(images: Images, columns: int, beside: int = 1) -> Images:
    """Complete rows of images; `beside` sheets share the width of the page."""
    columns = min(columns, len(images))
    complete = len(images) // columns * columns
    return mosaic(_printable(images[:complete], columns * beside), columns)


def slerp(figure: FigureEntry, names: Sequence[str], galleries: Sequence[Gallery]) -> list[Panel]:
    """Strips from one latent to another, with evenly chosen frames."""
    panels = []
    for name, gallery in zip(names, galleries, strict=True):
        strips = gallery["slerp"][: figure.rows]  # (rows, frames, R, R, 3)
        last = strips.shape[1] - 1
        columns = min(figure.columns, last + 1)
        frames = np.linspace(0, last, columns).round().astype(int)
        images = np.concatenate(strips[:, frames])
        picture = mosaic(_printable(images, columns), columns)
        panels.append(Panel(name, picture))
    return panels


def pairs(figure: FigureEntry, names: Sequence[str], galleries: Sequence[Gallery]) -> list[Panel]:
    """Pairs of rows with the same latents: the baseline above, RTM below, and space between the pairs."""
    shown = [gallery["samples"][figure.skip :] for gallery in galleries]
    fewest = min(map(len, shown))
    columns = min(figure.columns, fewest)
    blocks = []
    for row in range(min(figure.rows, fewest // columns)):
        place = slice(row * columns, (row + 1) * columns)
        images = np.concatenate([samples[place] for samples in shown])
        blocks.append(mosaic(_printable(images, columns), columns))
    height = blocks[0].shape[0]
    gap = max(2, height // 12)
    labels = []
    for block in range(len(blocks)):
        for place_in_block, name in enumerate(names):
            centre = (place_in_block + 0.5) * height / len(names)
            labels.append((block * (height + gap) + centre, name))
    return [Panel("", mosaic(np.stack(blocks), 1, gap), tuple(labels))]


def neighbours(figure: FigureEntry, names: Sequence[str], galleries: Sequence[Gallery]) -> list[Panel]:
    """A real image at the left and its nearest samples beside it, one row for each model."""
    queries = galleries[0]["queries"][: figure.rows]
    nearest = []
    for gallery in galleries:
        if not np.array_equal(gallery["queries"][: figure.rows], queries):
            raise UserError(f"The galleries of {', '.join(names)} hold different queries; make them again.")
        nearest.append(gallery["neighbours"][: figure.rows, : figure.columns])
    columns = nearest[0].shape[1] + len(galleries)  # the query is as large as its rows together
    across = 2 if len(queries) > 3 else 1
    blocks = []
    for query, *rows in zip(queries, *nearest, strict=True):
        blocks.append(_beside(query, rows, across * columns))
    order = "; ".join(f"row {number}: {name}" for number, name in enumerate(names, 1))
    gap = max(4, blocks[0].shape[0] // 10)
    return [Panel(f"left: real image; {order}", mosaic(np.stack(blocks), across, gap))]


def mosaic(images: Images, columns: int, gap: int | None = None) -> Images:
    """Pictures (number, height, width, 3) in rows with white gaps; the last row is filled up with white."""
    count, height, width, _ = images.shape
    gap = gap or max(1, width // 24)
    below = height + gap
    right = width + gap
    rows = math.ceil(count / columns)
    tiles = np.full((rows * columns, below, right, 3), WHITE, np.uint8)
    tiles[:count, :height, :width] = images
    grid = tiles.reshape(rows, columns, below, right, 3).swapaxes(1, 2)
    return grid.reshape(rows * below, columns * right, 3)[:-gap, :-gap]


def _beside(query: Images, rows: Sequence[Images], tiles: int) -> Images:
    """An enlarged picture, and beside it one row of images for each model."""
    columns = len(rows[0])
    right = mosaic(_printable(np.concatenate(rows), tiles), columns)
    height = right.shape[0]
    width_of_gap = max(2, height // 12)
    gap = np.full((height, width_of_gap, 3), WHITE, np.uint8)
    return np.concatenate([_resized(query, height), gap, right], axis=1)


def _printable(images: Images, columns: int) -> Images:
    """Shrink tiles to the print resolution; enlarge tiny ones, which viewers would blur."""
    limit = int(DPI * WIDTH / columns)
    size = images.shape[1]
    if size > limit:
        smaller = [_resized(image, limit) for image in images]
        return np.stack(smaller)
    factor = max(1, min(TINY, limit) // size)
    return images.repeat(factor, axis=1).repeat(factor, axis=2)


def _resized(image: Images, size: int) -> Images:
    old = image.shape[0]
    smooth = size <= old or old > TINY
    method = Image.Resampling.LANCZOS if smooth else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(image).resize((size, size), method))
