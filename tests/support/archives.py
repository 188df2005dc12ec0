"""Small archives in the true formats of the datasets' sources."""

import io
import json
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Files = Mapping[str, bytes]
Pixels = NDArray[np.uint8]


def noise(*shape: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def encoded(pixels: Pixels, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def flat(side: int, value: int, kind: str = "PNG") -> bytes:
    return encoded(np.full((side, side, 3), value, np.uint8), kind)


def write_zip(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, files: Files, *others: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in others:
            archive.addfile(info)
    return path


def write_folder(path: Path, files: Files) -> Path:
    for name, content in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)
    return path


def cifar_batches(pixels: Pixels, labels: list[int]) -> Files:
    """cifar-10-python.tar.gz: six pickles of Python 2, not in order, and other files. `pixels` is (5n, 3072).

    The test split has the negatives of the images of the first batch.
    """
    size = len(pixels) // 5
    files = {"cifar-10-batches-py/readme.html": b"<html>"}
    for number in (4, 5, 2, 1, 3):
        chosen = slice((number - 1) * size, number * size)
        files[f"cifar-10-batches-py/data_batch_{number}"] = _batch(pixels[chosen], labels[chosen])
    files["cifar-10-batches-py/test_batch"] = _batch(255 - pixels[:size], labels[:size])
    return files | {"cifar-10-batches-py/batches.meta": b"-"}


def _batch(pixels: Pixels, labels: list[int]) -> bytes:
    return pickle.dumps({b"batch_label": b"x", b"labels": labels, b"data": pixels}, protocol=2)


def cifar_sheets(pixels: Pixels, labels: list[int]) -> Files:
    """npm's package: the same images, with one PNG for each batch and one row of 1,024 pixels for each image."""
    rows = pixels.reshape(5, -1, 3, 1024).transpose(0, 1, 3, 2)
    files = {"package/package.json": b"{}", "package/test_batch.png": encoded(255 - rows[0])}
    files |= {f"package/data_batch_{number}.png": encoded(sheet) for number, sheet in enumerate(rows, start=1)}
    named = {"train_lables.json": labels, "test_lables.json": labels[: len(rows[0])]}
    return files | {f"package/{name}": json.dumps(listed).encode() for name, listed in named.items()}


def tfrecord(images: Pixels) -> bytes:
    """A TFRecord file like Glow's: Examples with label, shape and raw pixels."""
    return b"".join(record(_example(image)) for image in images)


def record(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return length + struct.pack("<I", masked_crc(length)) + content + struct.pack("<I", masked_crc(content))


def masked_crc(content: bytes) -> int:
    """CRC-32C bit by bit, rotated and shifted as in TFRecord files."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _example(image: Pixels) -> bytes:
    shape = b"".join(map(_varint, image.shape))
    features = {b"data": _field(1, _field(1, image.tobytes())), b"shape": _field(3, _field(1, shape))}
    features[b"label"] = _field(3, _field(1, _varint(0)))
    entries = [_field(1, _field(1, name) + _field(2, feature)) for name, feature in features.items()]
    return _field(1, b"".join(entries))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    low = value & 127
    return bytes([low]) if value == low else bytes([low | 128]) + _varint(value >> 7)
