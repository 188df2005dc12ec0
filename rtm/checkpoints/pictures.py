"""Images as PNG files, by the standard library: `rtm generate` needs no more than torch and safetensors."""

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
KEYWORD = b"rtm\0"  # of the text in a file that says how it was drawn
LEAST = 64  # pixels of an image on a sheet; smaller ones are enlarged, pixel by pixel


def sheet(images: Tensor, columns: int | None = None) -> Tensor:
    """Images (N, R, R, 3) side by side on one (H, W, 3), row by row; by default about as high as wide."""
    count, side = images.shape[:2]
    columns = columns or math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    zoom = max(1, LEAST // side)
    larger = images.repeat_interleave(zoom, 1).repeat_interleave(zoom, 2)
    filled = larger.new_full((rows * columns, *larger.shape[1:]), 255)
    filled[:count] = larger
    return filled.view(rows, columns, *larger.shape[1:]).transpose(1, 2).reshape(rows * side * zoom, -1, 3)


def write_png(path: Path, image: Tensor, about: dict[str, Any]) -> None:
    """Write an image (H, W, 3) with what it is `about`. A file that is there must be of this kind."""
    if path.exists() and not _is_ours(path):
        raise UserError(f"{path} is there and was not drawn by rtm; choose another --out, or move it away.")
    height, width, _ = image.shape
    lines = b"".join(b"\0" + bytes(row.flatten().tolist()) for row in image)  # each begins with its filter: none
    chunks = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0),  # 8 bits, RGB
        b"tEXt": KEYWORD + json.dumps(about, sort_keys=True).encode("ascii"),
        b"IDAT": zlib.compress(lines),
        b"IEND": b"",
    }
    with atomic(path) as file:
        file.write(SIGNATURE)
        for kind, content in chunks.items():
            file.write(struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content)))


def _is_ours(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(128)[37:].startswith(b"tEXt" + KEYWORD)  # after the signature and IHDR: 8 + 25 + 4 bytes
