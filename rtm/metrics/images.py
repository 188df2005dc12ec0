"""Images of any origin for `rtm evaluate`: a folder, or an array in .npy or .npz, read a batch at a time."""

import hashlib
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from rtm.core.errors import UserError
from rtm.core.randomness import permutation, seed_of
from rtm.core.readers import reading
from rtm.data.pictures import SUFFIXES, files_of, open_image

Pixels = NDArray[np.uint8]
Rows = slice | NDArray[np.int64]
REMEDY = "make this image again or remove it"
UNREAD = {".tif", ".tiff", ".gif", ".avif", ".heic", ".jp2", ".ppm", ".tga"}  # formats of images that are not read
PIECE = 500  # number of images whose values are checked at a time


class Pictures(Protocol):
    """uint8 images (N, H, W, 3): an array, or an object that reads images on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Rows, /) -> Pixels: ...


def load_images(path: Path) -> Pictures:
    """The images at `path`; an error names the faulty file."""
    if path.is_dir():
        return _Folder(path)
    if not path.exists():
        raise UserError(f"{path} does not exist; give a folder of images, an .npy or an .npz file.")
    if path.suffix not in (".npy", ".npz"):
        raise UserError(f"{path} is neither a folder of images nor an .npy or .npz file.")
    return _Array(path, _array(path))


def key_of(image: Pixels) -> bytes:
    """The key of an image (H, W, 3): the sha256 of "<H>x<W>", a line break and the image's bytes, row by row."""
    height, width = image.shape[:2]
    size = f"{height}x{width}\n".encode()
    return hashlib.sha256(size + image.tobytes()).digest()


def some_of(total: int, count: int, seed: int) -> NDArray[np.int64]:
    """The rows of a random subset, in order."""
    if count == total:
        return np.arange(total)
    order = permutation(seed_of("subset", seed), total)
    return np.sort(order[:count].numpy())


class Selection:
    """A part of the images. In a folder, only the selected files are checked and read."""

    def __init__(self, images: Pictures, rows: NDArray[np.int64]) -> None:
        self.images = images
        self.rows = rows
        if isinstance(images, _Folder | _Array):
            images.check(rows)
        self._keys: dict[int, bytes] = {}  # of the images that were read

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Rows, /) -> Pixels:
        pixels = np.array(self.images[self.rows[rows]])
        for row, image in zip(np.arange(len(self))[rows].tolist(), pixels, strict=True):
            self._keys[row] = key_of(image)
        return pixels

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.images[self.rows[:1]].shape[1:3]
        return height, width

    @property
    def keys(self) -> list[bytes]:
        """The keys of the images, in order. Images that were not read before are read now."""
        for row in range(len(self)):
            if row not in self._keys:
                self[row : row + 1]
        return [self._keys[row] for row in range(len(self))]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(b"".join(self.keys)).hexdigest()


class _Folder:
    """PNG, JPEG, ... in the order of their names.

    Hidden files and folders (thumbnails, checkpoints of editors) are skipped; links are followed.
    """

    def __init__(self, folder: Path) -> None:
        self.paths = []
        for path in files_of(folder):
            suffix = path.suffix.lower()
            if suffix in UNREAD:
                raise UserError(f"{path} is of a format that is not read; convert it to PNG, or move it away.")
            if suffix in SUFFIXES:
                self.paths.append(path)
        if not self.paths:
            raise UserError(f"{folder} holds no images ({', '.join(sorted(SUFFIXES))}).")

    def check(self, rows: NDArray[np.int64]) -> None:
        """Raise an error if the images are not RGB, or not all of the same size."""
        paths = [self.paths[row] for row in rows]
        width, height = _header(paths[0])
        for path in paths:
            size = _header(path)
            if size != (width, height):
                first = f"{paths[0].name} {width} x {height}"
                raise UserError(f"{path} is {size[0]} x {size[1]} px and {first}: give one size.")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Rows, /) -> Pixels:
        numbers = np.arange(len(self.paths))[rows]
        return np.stack([_pixels(self.paths[number]) for number in numbers])


def _header(path: Path) -> tuple[int, int]:
    with open_image(path, str(path), REMEDY) as image:
        if fault := _fault(image, path):
            raise UserError(f"{path} {fault}.")
        return image.size


def _fault(image: Image.Image, path: Path) -> str:
    """Why Pillow's pixels would differ from the image; "" if they do not."""
    if image.mode != "RGB":
        return f"is of mode {image.mode}, not RGB; convert all images to 8-bit RGB"
    if image.format == "PNG" and _png_depth(path) > 8:
        return "has 16 bits a channel; convert all images to 8-bit RGB"
    if image.format in ("PNG", "WEBP") and getattr(image, "n_frames", 1) > 1:
        return "is an animation; save its pictures one by one"
    if image.format != "PNG":
        turn = image.getexif().get(ExifTags.Base.Orientation, 1)
        if turn != 1:
            return f"is stored turned (EXIF orientation {turn}); save it upright"
    return ""


def _png_depth(path: Path) -> int:
    """The bits of each channel. The header is read here because Pillow silently cuts 16 bits down to 8."""
    with open(path, "rb") as file:
        return file.read(25)[24]  # after the signature, IHDR's length and name, width and height


def _pixels(path: Path) -> Pixels:
    with open_image(path, str(path), REMEDY) as image:
        return np.asarray(image)


def _array(path: Path) -> NDArray[np.generic]:
    with reading(path, "save it again, as a numpy file of numbers"):
        if path.suffix == ".npy":
            return np.lib.format.open_memmap(path, mode="r")
        with open(path, "rb") as file, np.load(file) as archive:  # numpy would not close a damaged file
            arrays = [np.asarray(archive[name]) for name in archive.files]
    arrays = [array for array in arrays if array.ndim == 4]
    if len(arrays) != 1:
        raise UserError(f"{path} holds {len(arrays)} arrays of images (4 axes); leave exactly one in it.")
    return arrays[0]


class _Array:
    """(N, H, W, 3) or (N, 3, H, W), uint8 or floats from 0 to 1."""

    def __init__(self, path: Path, array: NDArray[np.generic]) -> None:
        if array.ndim == 4 and array.shape[-1] != 3 and array.shape[1] == 3:
            array = array.transpose(0, 2, 3, 1)
        if array.ndim != 4 or array.shape[-1] != 3 or 0 in array.shape:
            raise UserError(f"{path} has the shape {array.shape}; images are (N, H, W, 3) or (N, 3, H, W), in colour.")
        if array.dtype == np.uint8:
            if all(image.max() <= 1 for image in array):
                raise UserError(f"{path} holds only 0 and 1 as uint8, which is black; save 0 to 255, or floats.")
        elif not np.issubdtype(array.dtype, np.floating):
            raise UserError(f"{path} holds {array.dtype}; save uint8, or floats from 0 to 1.")
        self.path = path
        self.array = array

    def check(self, rows: NDArray[np.int64]) -> None:
        """Raise an error for floats out of range, before hours of extraction."""
        if self.array.dtype != np.uint8:
            for start in range(0, len(rows), PIECE):
                self[rows[start : start + PIECE]]

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Rows, /) -> Pixels:
        part = self.array[rows]
        if part.dtype == np.uint8:
            return part.astype(np.uint8)
        values = part.astype(np.float64)
        if not (values.min() >= 0 and values.max() <= 1):  # false for NaN
            raise UserError(f"{self.path} has values outside 0 to 1, or NaN; bring floats to that range or save uint8.")
        return np.rint(values * 255).astype(np.uint8)
