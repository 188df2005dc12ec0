"""Images of any origin for `rtm evaluate`: a folder, or an array in .npy or .npz, read a batch at a time."""

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtm.core.errors import UserError
from rtm.core.files import reading
from rtm.data.pictures import SUFFIXES, open_image

REMEDY = "make this image again or remove it"


class Pictures(Protocol):
    """uint8 images (N, H, W, 3), or something that reads them when they are asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> NDArray[np.uint8]: ...


def load_images(path: Path) -> Pictures:
    """The images at `path`; an error names the file that is wrong."""
    if path.is_dir():
        return _Folder(path)
    if not path.exists():
        raise UserError(f"{path} does not exist; give a folder of images, an .npy or an .npz file.")
    if path.suffix not in (".npy", ".npz"):
        raise UserError(f"{path} is neither a folder of images nor an .npy or .npz file.")
    return _Array(path, _array(path))


class _Folder:
    """PNG, JPEG, ... in the order of their names; the headers are checked at once, the rest when it is read.

    Hidden files and folders, as thumbnails and checkpoints of editors are, do not count.
    """

    def __init__(self, folder: Path) -> None:
        found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
        self.paths = sorted(path for path in found if not _is_hidden(path.relative_to(folder)))
        if not self.paths:
            raise UserError(f"{folder} holds no images ({', '.join(sorted(SUFFIXES))}).")
        first, (width, height) = self.paths[0].name, _header(self.paths[0])
        for path in self.paths:
            if (size := _header(path)) != (width, height):
                raise UserError(f"{path} is {size[0]} x {size[1]} px and {first} {width} x {height}: give one size.")

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, rows: slice, /) -> NDArray[np.uint8]:
        return np.stack([_pixels(path) for path in self.paths[rows]])


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _header(path: Path) -> tuple[int, int]:
    with open_image(path, str(path), REMEDY) as image:
        mode, size = image.mode, image.size
    if mode != "RGB":
        raise UserError(f"{path} is of mode {mode}, not RGB; convert all images to 8-bit RGB.")
    return size


def _pixels(path: Path) -> NDArray[np.uint8]:
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

    def __getitem__(self, rows: slice, /) -> NDArray[np.uint8]:
        chosen = self.array[rows]
        if chosen.dtype == np.uint8:
            return chosen.astype(np.uint8)
        values = chosen.astype(np.float64)
        if not (values.min() >= 0 and values.max() <= 1):  # false for NaN
            raise UserError(f"{self.path} has values outside 0 to 1, or NaN; bring floats to that range or save uint8.")
        return np.rint(values * 255).astype(np.uint8)
