"""Open an image file of a foreign origin: four formats, a bounded size, and the checks that the format offers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import Image

from rtm.core.errors import UserError, printable
from rtm.core.files import UNREADABLE

SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp"}
FORMATS = ("PNG", "JPEG", "WEBP", "BMP")  # of others Pillow starts programs (PostScript) or reads further files
LARGEST = 1 << 26  # pixels
DAMAGED = UNREADABLE


@contextmanager
def open_image(
    file: Path | IO[bytes], name: str, remedy: str, formats: tuple[str, ...] = FORMATS
) -> Iterator[Image.Image]:
    """An image to be read inside of the `with`; what cannot be read is one sentence with `name` and `remedy`."""
    try:
        _check(file, formats)
        with Image.open(file, formats=formats) as image:
            yield image
    except (*DAMAGED, Image.DecompressionBombError):
        raise UserError(f"{printable(name)} cannot be read as an image ({', '.join(formats)}); {remedy}.") from None


def _check(file: Path | IO[bytes], formats: tuple[str, ...]) -> None:
    """The size from the header, and the checksums of a PNG, which Pillow skips where it decodes."""
    with Image.open(file, formats=formats) as image:
        if image.width * image.height > LARGEST:
            raise ValueError("too large")
        if image.format == "PNG":
            image.verify()
    if not isinstance(file, Path):
        file.seek(0)
