"""Images of any origin for `rtm evaluate`: a folder, or an array in .npy or .npz, read a batch at a time."""

import hashlib
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtm.core.errors import UserError
from rtm.core.files import files_below, reading
from rtm.core.randomness import permutation, seed_of
from rtm.data.pictures import SUFFIXES, open_image

Pixels = NDArray[np.uint8]
Rows = slice | NDArray[np.int64]
REMEDY = "make this image again or remove it"


class Pictures(Protocol):
    """uint8 images (N, H, W, 3), or something that reads them when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Rows, /) -> Pixels: ...


def load_images(path: Path) -> Pictures:
    """The images at `path`; an error names the file that is wrong."""
    if path.is_dir():
        return _Folder(path)
    if not path.exists():
        raise UserError(f"{path} does not exist; give a folder of images, an .npy or an .npz file.")
    if path.suffix not in (".npy", ".npz"):
        raise UserError(f"{path} is neither a folder of images nor an .npy or .npz file.")
    return _Array(path, _array(path))


def key_of(image: Pixels) -> bytes:
    """What an image (H, W, 3) is known by: the sha256 of "<H>x<W>", a line break and its bytes, row by row."""
    return hashlib.sha256(f"{image.shape[0]}x{image.shape[1]}\n".encode() + image.tobytes()).digest()


def some_of(total: int, count: int, seed: int) -> NDArray[np.int64]:
    """The rows of a random subset, in order."""
    if count == total:
        return np.arange(total)
    return np.sort(permutation(seed_of("subset", seed), total)[:count].numpy())


class Chosen:
    """Some of the images; in a folder, only their headers are checked and only they are read."""

    def __init__(self, images: Pictures, rows: NDArray[np.int64]) -> None:
        self.images, self.rows = images, rows
        if isinstance(images, _Folder):
            images.check(rows)
        self._keys: list[bytes | None] = [None] * len(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, rows: Rows, /) -> Pixels:
        pixels = np.array(self.images[self.rows[rows]])
        for row, image in zip(np.arange(len(self))[rows], pixels, strict=True):
            self._keys[row] = key_of(image)
        return pixels

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.images[self.rows[:1]].shape[1:3]
        return height, width

    @property
    def sha256(self) -> str:
        """Of the images' keys, in order; those that were not read yet are read for it."""
        for row, key in enumerate(self._keys):
            if key is None:
                self[row : row + 1]
        return hashlib.sha256(b"".join(key for key in self._keys if key)).hexdigest()


class _Folder:
    """PNG, JPEG, ... in the order of their names.

    Hidden files and folders, as thumbnails and checkpoints of editors are, do not count; links are followed.
    """

    def __init__(self, folder: Path) -> None:
        found = (path for path in files_below(folder) if path.suffix.lower() in SUFFIXES)
        self.paths = sorted(path for path in found if not _is_hidden(path.relative_to(folder)))
        if not self.paths:
            raise UserError(f"{folder} holds no images ({', '.join(sorted(SUFFIXES))}).")

    def check(self, rows: NDArray[np.int64]) -> None:
        """Refuse images that are not RGB or not of one size."""
        paths = [self.paths[row] for row in rows]
        first, (width, height) = paths[0].name, _header(paths[0])
        for path in paths:
            if (size := _header(path)) != (width, height):
                raise UserError(f"{path} is {size[0]} x {size[1]} px and {first} {width} x {height}: give one size.")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: Rows, /) -> Pixels:
        return np.stack([_pixels(self.paths[row]) for row in np.arange(len(self.paths))[rows]])


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _header(path: Path) -> tuple[int, int]:
    with open_image(path, str(path), REMEDY) as image:
        mode, size = image.mode, image.size
    if mode != "RGB":
        raise UserError(f"{path} is of mode {mode}, not RGB; convert all images to 8-bit RGB.")
    return size


def _pixels(path: Path) -> Pixels:
    with open_image(path, str(path), REMEDY) as image:
        return np.asarray(image)


def _array(path: Path) -> NDArray[np.generic]:
    with reading(path, "save it again, as a numpy file of numbers"):
        if path.suffix == ".npy":
            return np.lib.format.open_memmap(path, mode="r")
        with open(path, "rb") as file, np.load(file) as archive:  # numpy would leave a damaged one open
            candidates = [array for name in archive.files if (array := np.asarray(archive[name])).ndim == 4]
    if len(candidates) != 1:
        raise UserError(f"{path} holds {len(candidates)} arrays of images (4 axes); leave exactly one in it.")
    return candidates[0]


class _Array:
    """(N, H, W, 3) or (N, 3, H, W), uint8 or floats from 0 to 1."""

    def __init__(self, path: Path, array: NDArray[np.generic]) -> None:
        self.path = path
        if array.ndim == 4 and array.shape[-1] != 3 and array.shape[1] == 3:
            array = array.transpose(0, 2, 3, 1)
        if array.ndim != 4 or array.shape[-1] != 3 or 0 in array.shape:
            raise UserError(f"{path} has the shape {array.shape}; images are (N, H, W, 3) or (N, 3, H, W), in colour.")
        if array.dtype != np.uint8 and not np.issubdtype(array.dtype, np.floating):
            raise UserError(f"{path} holds {array.dtype}; save uint8, or floats from 0 to 1.")
        if array.dtype == np.uint8 and not any(image.max() > 1 for image in array):
            raise UserError(f"{path} holds only 0 and 1 as uint8, which is black; save 0 to 255, or floats.")
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, rows: Rows, /) -> Pixels:
        chosen = self.array[rows]
        if chosen.dtype == np.uint8:
            return chosen.astype(np.uint8)
        values = chosen.astype(np.float64)
        if not (values.min() >= 0 and values.max() <= 1):  # false for NaN
            raise UserError(f"{self.path} has values outside 0 to 1, or NaN; bring floats to that range or save uint8.")
        return np.rint(values * 255).astype(np.uint8)
