"""Write PNG files with the standard library only, because `rtm generate` needs only torch and safetensors."""

import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any

from torch import Tensor

from rtm.core.errors import UserError
from rtm.core.files import atomic

SIGNATURE = b"\x89PNG\r\n\x1a\n"
KEYWORD = b"rtm\0"  # the key of the text in a file that describes how it was drawn
LEAST = 64  # pixels of an image on a sheet; smaller images are enlarged by repeating pixels


def sheet(images: Tensor, columns: int | None = None) -> Tensor:
    """One image (H, W, 3) with all images (N, R, R, 3) in rows; by default it is about as high as wide."""
    count, side = images.shape[:2]
    columns = columns or math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    zoom = max(1, LEAST // side)
    larger = images.repeat_interleave(zoom, 1).repeat_interleave(zoom, 2)
    cells = larger.new_full((rows * columns, *larger.shape[1:]), 255)
    cells[:count] = larger
    grid = cells.view(rows, columns, *larger.shape[1:])
    return grid.transpose(1, 2).reshape(rows * side * zoom, -1, 3)


def write_png(
    path: Path,
    image: Tensor,  # (H, W, 3)
    about: dict[str, Any],  # facts for its metadata
) -> None:
    """Write an image. An existing file is replaced only if it is of this kind."""
    if path.is_dir() or (path.exists() and not _is_ours(path)):
        raise UserError(f"{path} is there and was not drawn by rtm; choose another --out, or move it away.")
    height, width, _ = image.shape
    lines = b"".join(b"\0" + bytes(row.flatten().tolist()) for row in image)  # first byte: no filter
    text = json.dumps(about, sort_keys=True)
    with atomic(path) as file:
        file.write(SIGNATURE)
        file.write(_chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)))  # 8 bits, RGB
        file.write(_chunk(b"tEXt", KEYWORD + text.encode("ascii")))
        file.write(_chunk(b"IDAT", zlib.compress(lines)))
        file.write(_chunk(b"IEND", b""))


def _chunk(kind: bytes, content: bytes) -> bytes:
    length = struct.pack(">I", len(content))
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return length + kind + content + checksum


def _is_ours(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(128)[37:].startswith(b"tEXt" + KEYWORD)  # after the signature and IHDR: 8 + 25 + 4 bytes
