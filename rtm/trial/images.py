"""A user's pictures: examine them, and keep them in the trial as square PNG files of one size."""

import hashlib
import io
import re
import statistics
import tarfile
import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
from PIL import Image, ImageOps

from rtm.core.errors import UserError, printable
from rtm.core.files import atomic_folder, json_digest
from rtm.core.progress import track
from rtm.data.archives import Archive, Member, opened
from rtm.data.pictures import FORMATS, SUFFIXES, open_image

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


@dataclass(frozen=True)
class Kept:
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
    broken = []
    with opened(source) as archive:
        members = _listed(archive)
        chosen = [member for member in members if _is_picture(member)]
        for member in track(chosen, f"look through {source.name}", len(chosen)):
            size = _size(archive, member)
            if size is None:
                broken.append(str(member.path))
            else:
                sides[str(member.path)] = min(size)
    others = tuple(str(member.path) for member in members if not _is_picture(member))
    if len(sides) < FEWEST:
        raise UserError(_too_few(source, len(sides), broken, others))
    return Survey(tuple(sorted(sides)), int(statistics.median(sides.values())), tuple(broken), others)


def state_of(source: Path) -> str:
    """A hash of the names and sizes of all pictures in a folder, or of the size of an archive."""
    if not source.is_dir():
        return json_digest(source.stat().st_size)
    with opened(source) as folder:
        files = [(member.path, member.entry) for member in _listed(folder) if _is_picture(member)]
    return json_digest([[str(path), entry.stat().st_size] for path, entry in files if isinstance(entry, Path)])


def keep(source: Path, pictures: Sequence[str], folder: Path, side: int) -> Kept:
    """Write the pictures as squares. Exact copies are left out; files that cannot be decoded are reported."""
    seen: set[bytes] = set()
    broken, wanted = [], set(pictures)
    with opened(source) as archive, atomic_folder(folder) as new:
        members = [member for member in _listed(archive) if str(member.path) in wanted]
        for member in track(sorted(members, key=lambda each: str(each.path)), "square the images", len(members)):
            try:
                with _opened(archive, member) as image:
                    square = squared(image, side)
            except UserError:
                broken.append(str(member.path))
                continue
            content = hashlib.sha256(square.tobytes()).digest()
            if content not in seen:
                seen.add(content)
                square.save(new / f"{len(seen):06d}-{_plain(member.path.stem)}.png")
        if len(seen) < FEWEST:
            raise UserError(_too_few(source, len(seen), broken))
    return Kept(len(seen), tuple(broken), len(members) - len(broken) - len(seen))


def squared(image: Image.Image, side: int) -> Image.Image:
    """RGB as a viewer shows it, cut to the square in the middle and resized."""
    upright = _eight_bits(ImageOps.exif_transpose(image))
    if upright.has_transparency_data:
        layers = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", layers.size, WHITE), layers)
    return ImageOps.fit(upright.convert("RGB"), (side, side), Image.Resampling.LANCZOS)


def _eight_bits(image: Image.Image) -> Image.Image:
    """The image in 8 bits. Values of 16-bit and float images are scaled, because Pillow would cut them off at 255."""
    if not image.mode.startswith(("I", "F")):
        return image
    values = np.asarray(image, np.float64)
    low, high = values.min(), values.max()
    if image.mode.startswith("I"):
        low, high = 0.0, 65535.0 if high > 255 else 255.0
    return Image.fromarray(np.rint(255 * (values - low) / max(high - low, 1e-12)).clip(0, 255).astype(np.uint8))


def _size(archive: Archive, member: Member) -> tuple[int, int] | None:
    try:
        with _opened(archive, member) as image:
            return image.size
    except UserError:
        return None


def _opened(archive: Archive, member: Member) -> AbstractContextManager[Image.Image]:
    file = member.entry if isinstance(member.entry, Path) else io.BytesIO(archive.read(member))
    return open_image(file, str(member.path), "leave it out", MORE_FORMATS)


def _listed(archive: Archive) -> list[Member]:
    """The files that are not hidden. A folder may also have very large files, for which an archive is refused."""
    if archive.source.is_dir():
        paths = ((path.relative_to(archive.source), path) for path in sorted(archive.source.rglob("*")))
        seen = ((below, path) for below, path in paths if not any(part.startswith(".") for part in below.parts))
        return [Member(PurePosixPath(below), 0, path) for below, path in seen if path.is_file()]
    try:
        return archive.members()
    except UserError as error:
        raise UserError(f"{error} If it is yours, unpack it and give the folder.") from None


def _is_picture(member: Member) -> bool:
    return member.path.suffix.lower() in MORE_SUFFIXES


def _plain(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "_", stem)[:40].strip("._") or "image"


def _too_few(source: Path, found: int, broken: Sequence[str], others: Sequence[str] = ()) -> str:
    kinds = ", ".join(sorted(MORE_SUFFIXES))
    some = f" Not used: {named([*broken, *others])}." if broken or others else ""
    return f"{source} has {found} images that can be read ({kinds}); at least {FEWEST} different ones are needed.{some}"


def named(paths: Sequence[str], most: int = 5) -> str:
    """The first names, and the number of the others."""
    shown = ", ".join(map(printable, paths[:most]))
    return shown if len(paths) <= most else f"{shown} and {len(paths) - most} more"
