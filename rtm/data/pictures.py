"""The files of a folder of images; and open an image file that is not trusted: four formats, a limited size, and the
checks that the format has."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import Image

from rtm.core.errors import UserError, printable
from rtm.core.files import files_below
from rtm.core.readers import UNREADABLE

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp"}
FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # for others, Pillow may start programs (PostScript) or read more files
LARGEST = 1 << 26  # pixels
DAMAGED = UNREADABLE


def files_of(folder: Path) -> list[Path]:
    """The files in a folder and below it that are not hidden, by name; an error for a link to nothing, because images
    would be left out."""
    for path in dead_links(folder):
        raise UserError(f"{path} is a link to nothing, so images would be left out; mend or remove it.")
    return visible_files(folder)


def visible_files(folder: Path) -> list[Path]:
    """The same without the error. Links to files and folders are followed, and no folder counts twice."""
    return sorted(path for path in files_below(folder) if not _is_hidden(path, folder))


def dead_links(folder: Path) -> list[Path]:
    """Links to nothing, which a walk through the folder skips silently."""
    walked = {Path(place) for place, _, _ in os.walk(folder)}
    linked = {path.parent for path in visible_files(folder)}
    paths = sorted(path for place in walked | linked for path in place.iterdir())
    return [path for path in paths if path.is_symlink() and not path.exists() and not _is_hidden(path, folder)]


def _is_hidden(path: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(folder).parts)


@contextmanager
def open_image(
    file: Path | IO[bytes], name: str, remedy: str, formats: tuple[str, ...] = FORMATS
) -> Iterator[Image.Image]:
    """An image that can be read inside the `with` block. If it cannot be read, the error has `name` and `remedy`."""
    try:
        _check(file, formats)
        with Image.open(file, formats=formats) as image:
            yield image
    except (*DAMAGED, Image.DecompressionBombError):
        raise UserError(f"{printable(name)} cannot be read as an image ({', '.join(formats)}); {remedy}.") from None


def _check(file: Path | IO[bytes], formats: tuple[str, ...]) -> None:
    """Check the size in the header, and the checksums of a PNG, because Pillow does not check them when it decodes."""
    with Image.open(file, formats=formats) as image:
        if image.width * image.height > LARGEST:
            raise ValueError("too large")
        if image.format == "PNG":
            image.verify()
    if not isinstance(file, Path):
        file.seek(0)
