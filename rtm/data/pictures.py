"""Open an image file that is not trusted: four formats, a limited size, and the checks that the format has."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import Image

from rtm.core.errors import UserError, printable
from rtm.core.readers import UNREADABLE

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp"}
FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # for others, Pillow may start programs (PostScript) or read more files
LARGEST = 1 << 26  # pixels
DAMAGED = UNREADABLE


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
