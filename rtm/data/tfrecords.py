"""Images of a TFRecord file, as Glow's CelebA-HQ has them: an Example a record, with `shape` and raw `data`."""

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from rtm.core.errors import UserError

_LENGTH, _CHECK = 8, 4  # bytes of a record's length and of each of its two checks
_POLYNOMIAL = 0x82F63B78  # of CRC-32C, reflected
Field = tuple[int, memoryview]


def images(content: bytes, name: str) -> Iterator[NDArray[np.uint8]]:
    """The pictures of a file, height x width x channels."""
    try:
        for record in _records(memoryview(content)):
            features = dict([_feature(entry) for entry in _nested(record, 1, 1)])
            shape = _integers(features[b"shape"])
            yield np.frombuffer(features[b"data"], np.uint8).reshape(shape)
    except (KeyError, ValueError, IndexError, StopIteration, struct.error):
        raise UserError(
            f"{name} is not a whole TFRecord file of images; delete its archive and get it again."
        ) from None


def _records(content: memoryview) -> Iterator[memoryview]:
    at = 0
    while at < len(content):
        length, check = struct.unpack_from("<QI", content, at)
        begin = at + _LENGTH + _CHECK
        at = begin + length + _CHECK
        if _masked_crc(content[begin - _LENGTH - _CHECK : begin - _CHECK]) != check or at > len(content):
            raise ValueError("a record's length is damaged")
        yield content[begin : begin + length]


def _feature(entry: memoryview) -> tuple[bytes, memoryview]:
    """Name and payload of an entry of the map: the first bytes or the packed integers."""
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
    """The length-delimited fields of a protocol buffer: all that an Example of images consists of."""
    at = 0
    while at < len(message):
        key, at = _integer(message, at)
        length, at = _integer(message, at)
        if key & 7 != 2 or at + length > len(message):
            raise ValueError("not an Example of images")
        yield key >> 3, message[at : at + length]
        at += length


def _integers(packed: memoryview) -> list[int]:
    values, at = [], 0
    while at < len(packed):
        value, at = _integer(packed, at)
        values.append(value)
    return values


def _integer(message: memoryview, at: int) -> tuple[int, int]:
    """A base-128 number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at


def _masked_crc(content: memoryview) -> int:
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ _POLYNOMIAL * (crc & 1)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
