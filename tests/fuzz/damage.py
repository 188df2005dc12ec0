"""Damage to bytes, as disks, networks and attackers cause it."""

from random import Random

EXTREMES = (b"\0", b"\xff", b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff" * 8, b"-1", b"99999999999", b"\r\n", b"%n")


def damaged(rng: Random, content: bytes) -> bytes:
    """Changed content: with flipped bits, cut, longer, shorter, out of order, or with extreme numbers."""
    while True:
        changed = content
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            changed = rng.choice((_flipped, _flipped, _cut, _inserted, _without, _twice, _zeroed, _extreme))(
                rng, changed
            )
        if changed != content:
            return changed


def _place(rng: Random, content: bytes) -> int:
    """A random place, often near the ends, where formats keep their headers and directories."""
    near = min(len(content), 64)
    return rng.choice((rng.randint(0, len(content)), rng.randint(0, near), len(content) - rng.randint(0, near)))


def _range(rng: Random, content: bytes) -> tuple[int, int]:
    begin = _place(rng, content)
    return begin, min(len(content), begin + rng.choice((1, 4, 16, 512, len(content) // 4)))


def _flipped(rng: Random, content: bytes) -> bytes:
    if not content:
        return b"x"
    place = min(_place(rng, content), len(content) - 1)
    return content[:place] + bytes([content[place] ^ 1 << rng.randrange(8)]) + content[place + 1 :]


def _cut(rng: Random, content: bytes) -> bytes:
    return content[: _place(rng, content)]


def _inserted(rng: Random, content: bytes) -> bytes:
    place = _place(rng, content)
    return content[:place] + rng.randbytes(rng.choice((1, 4, 512))) + content[place:]


def _without(rng: Random, content: bytes) -> bytes:
    begin, end = _range(rng, content)
    return content[:begin] + content[end:]


def _twice(rng: Random, content: bytes) -> bytes:
    begin, end = _range(rng, content)
    return content[:end] + content[begin:]


def _zeroed(rng: Random, content: bytes) -> bytes:
    begin, end = _range(rng, content)
    return content[:begin] + bytes(end - begin) + content[end:]


def _extreme(rng: Random, content: bytes) -> bytes:
    place = _place(rng, content)
    value = rng.choice(EXTREMES)
    return content[:place] + value + content[place + len(value) :]
