"""Images of a TFRecord file, as in Glow's CelebA-HQ: each record is an Example with `shape` and raw `data`.

Both checksums of every record (of its length and of its data) are compared.
"""

import math
import struct
from collections.abc import Iterator

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from rtm.core.errors import UserError, printable

_LENGTH = 8
_CHECK = 4  # bytes of a record's length and of each of its two checks
_AXES = 3  # height, width, channels
_LONGEST = 10  # bytes of a base-128 number of 64 bits
Field = tuple[int, memoryview]


def images(content: bytes, name: str) -> Iterator[NDArray[np.uint8]]:
    """The pictures of a file, height x width x channels."""
    try:
        for record in _records(memoryview(content)):
            features = dict([_feature(entry) for entry in _nested(record, 1, 1)])
            shape = _integers(features[b"shape"])
            data = features[b"data"]
            if len(shape) != _AXES or math.prod(shape) != len(data):
                raise ValueError("a shape that the data does not have")
            yield np.frombuffer(data, np.uint8).reshape(shape)
    except (KeyError, ValueError, IndexError, StopIteration, struct.error):
        raise UserError(
            f"{printable(name)} is damaged, or no TFRecord file of images; delete its archive and get it again."
        ) from None


def _records(content: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(content):
        length, check = struct.unpack_from("<QI", content, at)
        begin = at + _LENGTH + _CHECK
        end = begin + length
        if _masked_crc(content[at : at + _LENGTH]) != check or end + _CHECK > len(content):
            raise ValueError("a record's length is damaged")
        if _masked_crc(content[begin:end]) != struct.unpack_from("<I", content, end)[0]:
            raise ValueError("a record's data is damaged")
        yield content[begin:end]
        at = end + _CHECK


def _feature(entry: memoryview) -> tuple[bytes, memoryview]:
    """The name and the payload of an entry of the map; the payload is the first bytes or the packed integers."""
    parts = dict(_fields(entry))
    values = next(_fields(parts[2]))[1]  # a list of bytes or of integers
    payload = next(_fields(values))[1]
    return bytes(parts[1]), payload


def _nested(message: memoryview, *path: int) -> Iterator[memoryview]:
    """The messages at a path of field numbers."""
    first, *rest = path
    for number, value in _fields(message):
        if number == first:
            yield from _nested(value, *rest) if rest else [value]


def _fields(message: memoryview) -> Iterator[Field]:
    """The length-delimited fields of a protocol buffer; an Example of images has no other fields."""
    at = 0
    while at < len(message):
        key, at = _integer(message, at)
        length, at = _integer(message, at)
        if key & 7 != 2 or at + length > len(message):
            raise ValueError("not an Example of images")
        yield key >> 3, message[at : at + length]
        at += length


def _integers(packed: memoryview) -> list[int]:
    values = []
    at = 0
    while at < len(packed):
        value, at = _integer(packed, at)
        values.append(value)
    return values


def _integer(message: memoryview, at: int) -> tuple[int, int]:
    """A base-128 number, and the place after its end."""
    value = 0
    for place in range(_LONGEST):
        byte = message[at + place]
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a number without an end")


def _masked_crc(content: memoryview) -> int:
    """CRC-32C in the form of TFRecord files: rotated by 15 bits, plus a constant."""
    crc = int(google_crc32c.value(bytes(content)))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
