"""A user's pictures: examine them, and keep them in the trial as square PNG files of one size."""

import hashlib
import io
import re
import statistics
import tarfile
import zipfile
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, ImageOps

from rtm.core.errors import UserError, printable
from rtm.core.files import atomic_folder, json_digest
from rtm.core.progress import track
from rtm.data.archives import Archive, Member, opened
from rtm.data.pictures import FORMATS, SUFFIXES, dead_links, open_image, visible_files

FEWEST = 16
MORE_SUFFIXES = {*SUFFIXES, ".gif", ".tif", ".tiff", ".ppm", ".pgm", ".jfif"}
MORE_FORMATS = (*FORMATS, "GIF", "TIFF", "PPM")  # read by Pillow itself: no program and no second file
WHITE = (255, 255, 255)


@dataclass(frozen=True)
class Survey:
    """The content of a folder or an archive."""

    pictures: tuple[str, ...]  # paths inside of it
    side: int  # median of the shorter sides, in pixels
    broken: tuple[str, ...]
    others: tuple[str, ...]  # files of other kinds
    linked: int = 0  # pictures that are elsewhere, behind links


@dataclass(frozen=True)
class Squares:
    """The pictures that were kept."""

    count: int
    broken: tuple[str, ...]
    copies: int  # pictures with the same pixels as an earlier one


def survey(source: Path) -> Survey:
    """Read the sizes of all pictures; an error if there are too few to learn from."""
    if not source.exists():
        raise UserError(f"{source} does not exist; give a folder of images, or a zip or tar of them.")
    if not (source.is_dir() or zipfile.is_zipfile(source) or tarfile.is_tarfile(source)):
        raise UserError(f"{source} is no folder and no whole zip or tar; give a folder of images.")
    sides: dict[str, int] = {}
    broken = [str(path.relative_to(source)) for path in dead_links(source)] if source.is_dir() else []
    with opened(source) as archive:
        members = {str(member.path): member for member in _members(archive)}
        pictures = {name: member for name, member in members.items() if _is_picture(member)}
        for name, member in track(pictures.items(), f"look through {source.name}", len(pictures)):
            try:
                with _opened(archive, member) as image:
                    sides[name] = min(image.size)
            except UserError:
                broken.append(name)
    others = tuple(name for name in members if name not in pictures)
    if len(sides) < FEWEST:
        raise UserError(_too_few(source, len(sides), [*broken, *others]))
    side = int(statistics.median(sides.values()))
    return Survey(tuple(sorted(sides)), side, tuple(broken), others, _linked(source, sides))


def _linked(source: Path, names: Iterable[str]) -> int:
    """How many files of a folder are behind links."""
    here = source.resolve()
    return sum((here / name).resolve() != here / name for name in names)


def state_of(source: Path) -> str:
    """A hash of the names and sizes of all pictures in a folder, or of the size of an archive."""
    if not source.is_dir():
        return json_digest(source.stat().st_size)
    sizes = []
    with opened(source) as folder:
        for member in _members(folder):
            if _is_picture(member):
                name = str(member.path)
                sizes.append([name, (source / name).stat().st_size])
    return json_digest(sizes)


def write_squares(source: Path, pictures: Sequence[str], folder: Path, side: int) -> Squares:
    """Write the pictures as squares. Exact copies are left out; files that cannot be decoded are reported."""
    seen: set[bytes] = set()
    broken: list[str] = []
    with opened(source) as archive, atomic_folder(folder) as new:
        members = {str(member.path): member for member in _members(archive)}
        for name in track(sorted(pictures), "square the images", len(pictures)):
            try:
                with _opened(archive, members[name]) as image:
                    square = squared(image, side)
            except UserError:
                broken.append(name)
                continue
            content = hashlib.sha256(square.tobytes()).digest()
            if content not in seen:
                seen.add(content)
                square.save(new / f"{len(seen):06d}-{_plain(members[name].path.stem)}.png")
        if len(seen) < FEWEST:
            raise UserError(_too_few(source, len(seen), broken))
    copies = len(pictures) - len(broken) - len(seen)
    return Squares(len(seen), tuple(broken), copies)


def squared(image: Image.Image, side: int) -> Image.Image:
    """RGB as a viewer shows it, cut to the square in the middle and resized."""
    upright = _eight_bits(ImageOps.exif_transpose(image))
    if upright.has_transparency_data:
        layers = upright.convert("RGBA")
        ground = Image.new("RGBA", layers.size, WHITE)
        upright = Image.alpha_composite(ground, layers)
    return ImageOps.fit(upright.convert("RGB"), (side, side), Image.Resampling.LANCZOS)


def _eight_bits(image: Image.Image) -> Image.Image:
    """The image in 8 bits. Values of 16-bit and float images are scaled, because Pillow would cut them off at 255."""
    if not image.mode.startswith(("I", "F")):
        return image
    values = np.asarray(image, np.float64)
    low = values.min()
    high = values.max()
    if image.mode.startswith("I"):
        low = 0.0
        high = 65535.0 if high > 255 else 255.0
    scaled = 255 * (values - low) / max(high - low, 1e-12)
    return Image.fromarray(np.rint(scaled).clip(0, 255).astype(np.uint8))


def _opened(archive: Archive, member: Member) -> AbstractContextManager[Image.Image]:
    file = member.entry if isinstance(member.entry, Path) else io.BytesIO(archive.read(member))
    return open_image(file, str(member.path), "leave it out", MORE_FORMATS)


def _members(archive: Archive) -> list[Member]:
    """The files that are not hidden. A folder may also have very large files, for which an archive is refused."""
    if archive.source.is_dir():
        files = visible_files(archive.source)
        return [Member(PurePosixPath(path.relative_to(archive.source)), 0, path) for path in files]
    try:
        return archive.members()
    except UserError as error:
        raise UserError(f"{error} If it is yours, unpack it and give the folder.") from None


def _is_picture(member: Member) -> bool:
    return member.path.suffix.lower() in MORE_SUFFIXES


def _plain(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "_", stem)[:40].strip("._") or "image"


def _too_few(source: Path, count: int, unused: Sequence[str]) -> str:
    kinds = ", ".join(sorted(MORE_SUFFIXES))
    some = f" Not used: {listed(unused)}." if unused else ""
    return f"{source} has {count} images that can be read ({kinds}); at least {FEWEST} different ones are needed.{some}"


def listed(paths: Sequence[str], most: int = 5) -> str:
    """The first names, and the number of the others."""
    names = ", ".join(map(printable, paths[:most]))
    return names if len(paths) <= most else f"{names} and {len(paths) - most} more"
