"""Figures of images: samples, interpolations, neighbours and pairs, each as one array."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from rtm.config import Config
from rtm.config.reports import Figure
from rtm.core.errors import UserError
from rtm.core.files import reading
from rtm.core.layout import Layout
from rtm.reports.commands import command

Images = NDArray[np.uint8]
WIDTH = 6.75  # text width of a page in inches
DPI = 300
WHITE = 255


@dataclass(frozen=True)
class Panel:
    """One picture of a figure, with its title and row labels."""

    title: str
    image: Images  # (height, width, 3)
    row_labels: tuple[tuple[float, str], ...] = ()  # centre of the row in pixels, and its name


def read_gallery(config: Config, layout: Layout, name: str) -> dict[str, Images]:
    """The images of an experiment that figures may show: samples, slerp, queries, neighbours."""
    path = layout.gallery(name, config.experiment(name).seeds[0])
    if not path.exists():
        raise UserError(f"{path} does not exist; make it first with `{command(config, path, [name])}`.")
    remedy = f"delete it and make it again with `{command(config, path, [name])}`"
    with reading(path, remedy), open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
        images = {key: file[key] for key in file.files}
        axes = {"samples": 4, "slerp": 5, "queries": 4, "neighbours": 5}
        assert all(each.dtype == np.uint8 and each.shape[-1:] == (3,) for each in images.values()), "not images"
        assert all(each.ndim == axes.get(key, each.ndim) for key, each in images.items()), "other axes"
    return images


def samples(figure: Figure, names: Sequence[str], galleries: Sequence[dict[str, Images]]) -> list[Panel]:
    """One sheet for each experiment, side by side. Equal places have equal latents."""
    panels = []
    for name, gallery in zip(names, galleries, strict=True):
        chosen = _take(gallery, "samples")[figure.skip :][: figure.rows * figure.columns]
        panels.append(Panel(name, sheet(chosen, figure.columns, len(galleries))))
    return panels


def sheet(images: Images, columns: int, beside: int = 1) -> Images:
    """Complete rows of images; `beside` sheets share the width of the page."""
    columns = min(columns, len(images))
    rows = len(images) // columns
    grid = images[: rows * columns].reshape(rows, columns, *images.shape[1:])
    return mosaic(_fitted(grid, columns * beside))


def slerp(figure: Figure, names: Sequence[str], galleries: Sequence[dict[str, Images]]) -> list[Panel]:
    """Strips from one latent to another, with evenly chosen frames."""
    panels = []
    for name, gallery in zip(names, galleries, strict=True):
        strips = _take(gallery, "slerp")[: figure.rows]  # (rows, frames, R, R, 3)
        frames = np.linspace(0, strips.shape[1] - 1, min(figure.columns, strips.shape[1])).round().astype(int)
        panels.append(Panel(name, mosaic(_fitted(strips[:, frames], len(frames)))))
    return panels


def pairs(figure: Figure, names: Sequence[str], galleries: Sequence[dict[str, Images]]) -> list[Panel]:
    """Pairs of rows with the same latents: the baseline above, RTM below, and space between the pairs."""
    sheets = [_take(gallery, "samples")[figure.skip :] for gallery in galleries]
    columns = min(figure.columns, *(len(sheet) for sheet in sheets))
    rows = min(figure.rows, *(len(sheet) // columns for sheet in sheets))
    blocks, labels, top = [], [], 0.0
    for row in range(rows):
        chosen = np.stack([sheet[row * columns : (row + 1) * columns] for sheet in sheets])  # (models, columns, ...)
        block = mosaic(_fitted(chosen, columns))
        tile = block.shape[0] / len(sheets)
        labels += [(top + (index + 0.5) * tile, name) for index, name in enumerate(names)]
        space = np.full((max(2, block.shape[0] // 12), *block.shape[1:]), WHITE, np.uint8)
        blocks += [block, space]
        top += block.shape[0] + space.shape[0]
    return [Panel("", np.concatenate(blocks[:-1]), tuple(labels))]


def neighbours(figure: Figure, names: Sequence[str], galleries: Sequence[dict[str, Images]]) -> list[Panel]:
    """A real image at the left and its nearest samples beside it, one row for each model."""
    queries = _take(galleries[0], "queries")[: figure.rows]
    if any(not np.array_equal(_take(gallery, "queries")[: figure.rows], queries) for gallery in galleries):
        raise UserError(f"The galleries of {', '.join(names)} hold different queries; make them again.")
    nearest = [_take(gallery, "neighbours")[: figure.rows, : figure.columns] for gallery in galleries]
    across = 2 if len(queries) > 3 else 1
    columns = across * (nearest[0].shape[1] + len(nearest))
    blocks = [_block(query, [rows[index] for rows in nearest], columns) for index, query in enumerate(queries)]
    blocks += [np.full_like(blocks[0], WHITE)] * (-len(blocks) % across)
    grid = np.stack(blocks).reshape(-1, across, *blocks[0].shape)
    order = "; ".join(f"row {number}: {name}" for number, name in enumerate(names, 1))
    return [Panel(f"left: real image; {order}", mosaic(grid, gap=max(4, blocks[0].shape[0] // 10)))]


def mosaic(grid: Images, gap: int | None = None) -> Images:
    """(rows, columns, height, width, 3) as one picture with white gaps."""
    rows, columns, height, width, channels = grid.shape
    gap = max(1, width // 24) if gap is None else gap
    sheet = np.full((rows, height + gap, columns, width + gap, channels), WHITE, np.uint8)
    sheet[:, :height, :, :width] = grid.transpose(0, 2, 1, 3, 4)
    return sheet.reshape(rows * (height + gap), columns * (width + gap), channels)[: -gap or None, : -gap or None]


def _block(query: Images, rows: list[Images], columns: int) -> Images:
    beside = mosaic(_fitted(np.stack(rows), columns))
    height = beside.shape[0]
    large = np.asarray(Image.fromarray(query).resize((height, height), _filter(query.shape[0], height)))
    gap = np.full((height, max(2, height // 12), 3), WHITE, np.uint8)
    return np.concatenate([large, gap, beside], axis=1)


def _fitted(grid: Images, columns: int) -> Images:
    """Shrink tiles to the print resolution; enlarge tiny ones, which viewers would blur."""
    limit = int(DPI * WIDTH / columns)
    size = grid.shape[2]
    if size <= limit:
        factor = max(1, min(64, limit) // size)
        return grid.repeat(factor, axis=2).repeat(factor, axis=3)
    flat = grid.reshape(-1, *grid.shape[2:])
    small = [np.asarray(Image.fromarray(image).resize((limit, limit), _filter(size, limit))) for image in flat]
    return np.stack(small).reshape(*grid.shape[:2], limit, limit, 3)


def _filter(old: int, new: int) -> Image.Resampling:
    """Small pictures are enlarged without smoothing."""
    return Image.Resampling.NEAREST if new > old and old <= 64 else Image.Resampling.LANCZOS


def _take(gallery: dict[str, Images], key: str) -> Images:
    if key not in gallery or not len(gallery[key]):
        raise UserError(f"This figure needs {key}, which a gallery does not hold; make it again with `rtm gallery`.")
    return gallery[key]
