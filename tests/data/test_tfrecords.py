"""TFRecord files are read exactly, and every damage is found."""

import pytest
from support.archives import flat, masked_crc, noise, record, tfrecord

from rtm.core.errors import UserError
from rtm.data import tfrecords


def test_tfrecords_are_read_and_damage_is_found() -> None:
    images = noise(3, 4, 5, 3)
    content = tfrecord(images)
    assert [image.tolist() for image in tfrecords.images(content, "x")] == images.tolist()
    for damaged in (content[:-10], b"\1" + content[1:], content[:100] + content, flat(4, 0)):
        with pytest.raises(UserError, match="x is damaged, or no TFRecord file"):
            list(tfrecords.images(damaged, "x"))


def test_the_check_of_a_record_is_crc32c() -> None:
    """The published CRC-32C of the nine digits is 0xE3069283; TFRecord rotates it by 15 and adds a constant."""
    crc = 0xE3069283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    for content in (b"123456789", noise(1000).tobytes()):
        assert tfrecords._masked_crc(memoryview(content)) == masked_crc(content)


def test_every_flipped_byte_of_a_tfrecord_is_found() -> None:
    content = tfrecord(noise(1, 4, 4, 3))
    for place in range(len(content)):
        damaged = content[:place] + bytes([content[place] ^ 16]) + content[place + 1 :]
        with pytest.raises(UserError, match="x is damaged"):
            list(tfrecords.images(damaged, "x"))


def test_a_record_of_an_attacker_is_refused() -> None:
    """The checksums are right, but a number has no end, or the data has another shape."""
    example = tfrecord(noise(1, 4, 5, 3))[12:-4]
    swollen = example.replace(b"\x04\x05\x03", b"\x04\x06\x03")
    for content in (b"\x0a" + b"\xff" * 100_000, swollen):
        with pytest.raises(UserError, match="x is damaged"):
            list(tfrecords.images(record(content), "x"))
