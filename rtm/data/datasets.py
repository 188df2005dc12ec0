"""Prepare a dataset once as one memory-mappable array, and read batches of it.

data/<name>/images.npy (uint8, N x R x R x 3), labels.npy (int64, N; only with classes) and meta.json, written last.
"""

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from rtm.config.experiments import Dataset
from rtm.data.download import download
from rtm.data.pickles import load_arrays
from rtm.errors import UserError
from rtm.files import atomic, digest, read_json, write_json

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]
Member = tuple[str, Callable[[], bytes]]  # path inside the archive, and how to read it
IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".webp", ".bmp"}
ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
RESIZE = {"bilinear": Image.Resampling.BILINEAR, "lanczos": Image.Resampling.LANCZOS}


def prepare(name: str, dataset: Dataset, images: Path, source: Path | None = None) -> None:
    """Write the dataset's files beside `images`; the same input gives the same bytes."""
    readers = {"digits": _digits, "cifar10": _cifar10, "folder": _folder}
    pixels, labels = readers[dataset.kind](name, dataset, images, source)
    _check(name, dataset, pixels)
    _save(images, pixels)
    sha256 = digest(images)
    if dataset.sha256 not in (None, sha256):
        images.unlink()
        raise UserError(
            f"{name} came out with sha256 {sha256}, not the {dataset.sha256} of params/datasets.yaml; get the "
            "original archive, or set the new sha256 if the data was meant to change."
        )
    if dataset.classes:
        _save(images.with_name("labels.npy"), labels)
    described = dataset.model_dump(
        include={"title", "kind", "resolution", "count", "resize", "url", "licence", "citation"}
    )
    write_json(images.with_name("meta.json"), {"name": name, "sha256": sha256, **described})


class Images:
    """A prepared dataset, memory-mapped."""

    def __init__(self, images: Path) -> None:
        meta = images.with_name("meta.json")
        if not (images.exists() and meta.exists()):
            raise UserError(
                f"{images} is missing; get it with `rtm fetch {images.parent.name}` or `dvc pull {images.parent}`."
            )
        self.pixels: Pixels = np.load(images, mmap_mode="r")
        self.sha256: str = read_json(meta)["sha256"]
        labels = images.with_name("labels.npy")
        self.labels: Labels | None = np.load(labels) if labels.exists() else None

    def __len__(self) -> int:
        return len(self.pixels)

    def batch(self, index: Tensor, device: torch.device) -> Tensor:
        """Images (batch, 3, R, R) in [-1, 1]."""
        chosen = torch.from_numpy(self.pixels[index.cpu().numpy()]).to(device, non_blocking=True)
        return to_unit(chosen.permute(0, 3, 1, 2))


def to_unit(pixels: Tensor) -> Tensor:
    """uint8 to float32 in [-1, 1]."""
    return pixels.to(torch.float32) / 127.5 - 1


def to_pixels(images: Tensor) -> Tensor:
    """[-1, 1] to uint8, rounded to the nearest."""
    return ((images.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def _save(path: Path, array: NDArray[np.generic]) -> None:
    with atomic(path) as file:
        np.save(file, array)


def _check(name: str, dataset: Dataset, pixels: Pixels) -> None:
    expected = (dataset.count, dataset.resolution, dataset.resolution, 3)
    if pixels.shape != expected:
        raise UserError(
            f"{name} has {len(pixels)} images of {pixels.shape[1]} px, but params/datasets.yaml says {dataset.count} "
            f"of {dataset.resolution} px; check that the source is complete and the right one."
        )


def _digits(name: str, dataset: Dataset, images: Path, source: Path | None) -> tuple[Pixels, Labels]:
    from sklearn.datasets import load_digits  # slow to import, and needed nowhere else

    digits = load_digits()
    grey = np.rint(digits.images[: dataset.count] * (255 / 16)).astype(np.uint8)
    size = (dataset.resolution, dataset.resolution)
    if size != grey.shape[1:]:
        grey = np.stack([np.asarray(Image.fromarray(image).resize(size, RESIZE["bilinear"])) for image in grey])
    return np.repeat(grey[..., None], 3, axis=-1), digits.target[: dataset.count].astype(np.int64)


def _cifar10(name: str, dataset: Dataset, images: Path, source: Path | None) -> tuple[Pixels, Labels]:
    archive = source or _found(name, images) or _downloaded(name, dataset, images)
    if dataset.md5 and digest(archive, "md5") != dataset.md5:
        raise UserError(f"{archive} does not have the published md5 {dataset.md5}; delete it and fetch again.")
    pixels, labels = [], []
    with tarfile.open(archive) as tar:
        for number in range(1, 6):
            member = tar.extractfile(f"cifar-10-batches-py/data_batch_{number}")
            assert member is not None
            batch = load_arrays(member)
            pixels.append(np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
            labels.append(np.asarray(batch[b"labels"], np.int64))
    return np.ascontiguousarray(np.concatenate(pixels)), np.concatenate(labels)


def _folder(name: str, dataset: Dataset, images: Path, source: Path | None) -> tuple[Pixels, Labels]:
    found = source or _found(name, images)
    if found is None and dataset.url and dataset.url.endswith(ARCHIVE_SUFFIXES):
        found = _downloaded(name, dataset, images)
    if found is None:
        raise UserError(
            f"{name} has to be got by hand: see {dataset.url} ({dataset.licence}), put the folder or archive at "
            f"{_raw(name, images)} (or with {', '.join(ARCHIVE_SUFFIXES)} behind the name), and run this again."
        )
    with _members(found) as members:
        chosen = sorted(
            (member for member in members if Path(member[0]).suffix.lower() in IMAGE_SUFFIXES), key=lambda m: m[0]
        )
        if len(chosen) != dataset.count:
            raise UserError(f"{found} holds {len(chosen)} images, but {name} has {dataset.count}; is it complete?")
        pixels = np.stack([_decoded(path, read(), dataset) for path, read in chosen])
    folders = [Path(path).parent.name for path, _ in chosen]
    return pixels, np.array([sorted(set(folders)).index(folder) for folder in folders], np.int64)


def _raw(name: str, images: Path) -> Path:
    return images.parents[2] / "downloads" / name


def _found(name: str, images: Path) -> Path | None:
    """What the user, or an earlier download, put in place."""
    raw = _raw(name, images)
    candidates = [raw, *(raw.with_name(name + suffix) for suffix in ARCHIVE_SUFFIXES)]
    return next((path for path in candidates if path.exists()), None)


def _downloaded(name: str, dataset: Dataset, images: Path) -> Path:
    assert dataset.url is not None
    suffix = next(suffix for suffix in reversed(ARCHIVE_SUFFIXES) if dataset.url.endswith(suffix))
    path = _raw(name, images).with_name(name + suffix)
    download(dataset.url, path)
    return path


@contextmanager
def _members(source: Path) -> Iterator[list[Member]]:
    """Files of a folder, zip or tar, read one at a time and never unpacked to disk."""
    if source.is_dir():
        paths = [path for path in source.rglob("*") if path.is_file()]
        yield [(str(path.relative_to(source)), path.read_bytes) for path in paths]
    elif zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            yield [(name, partial(archive.read, name)) for name in archive.namelist()]
    elif tarfile.is_tarfile(source):
        with tarfile.open(source) as tar:
            yield [(entry.name, partial(_read_entry, tar, entry)) for entry in tar if entry.isfile()]
    else:
        raise UserError(f"{source} is neither a folder nor a zip or tar archive; delete it and get it again.")


def _read_entry(tar: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(entry)
    assert file is not None
    return file.read()


def _decoded(path: str, content: bytes, dataset: Dataset) -> Pixels:
    try:
        image = Image.open(io.BytesIO(content)).convert("RGB")
    except OSError:
        raise UserError(f"{path} cannot be read as an image; get the archive again.") from None
    size = (dataset.resolution, dataset.resolution)
    if image.size != size:
        if dataset.resize == "none":
            raise UserError(f"{path} is {image.width} x {image.height} px, not {size[0]} x {size[1]}.")
        image = image.resize(size, RESIZE[dataset.resize])
    return np.asarray(image)
