"""A pickle gives only numbers, texts and containers, and never runs anything. An array is exactly its bytes."""

import io
import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy._core.multiarray import _reconstruct

from rtm.core.errors import UserError
from rtm.data.pickles import load_arrays


class Call:
    """Its pickle calls `function` when somebody loads it, and gives the result a state."""

    def __init__(self, function: Callable[..., Any], *arguments: object, state: object = None) -> None:
        self.reduced = (function, arguments, state) if state is not None else (function, arguments)

    def __reduce__(self) -> Any:
        return self.reduced


def loaded(value: object, protocol: int = 2) -> Any:
    return load_arrays(io.BytesIO(pickle.dumps(value, protocol=protocol)))


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("kind", ["u1", "<i8", ">f4", "f2", "?"])
def test_arrays_and_containers_come_as_pickle_gives_them(protocol: int, kind: str) -> None:
    array = np.asfortranarray(np.arange(12).reshape(3, 4).astype(kind))
    value = {"a": array, "b": [1, 2.5, None, True], "c": (array[:, 1], "text"), "d": OrderedDict(x=np.float32(1.5))}
    found = loaded(value, protocol)
    assert np.array_equal(found["a"], array) and found["a"].dtype == pickle.loads(pickle.dumps(array, protocol)).dtype
    assert found["b"] == value["b"] and np.array_equal(found["c"][0], array[:, 1]) and found["d"] == {"x": 1.5}


def test_python_2_gives_byte_strings() -> None:
    assert load_arrays(io.BytesIO(b"(dp0\nS'labels'\np1\n(lp2\nI3\nas.")) == {b"labels": [3]}


@pytest.mark.parametrize(
    "call",
    [
        Call(print, "ran"),
        Call(np.frombuffer, b"abc"),
        Call(_reconstruct, np.recarray, (0,), b"b"),
        Call(_reconstruct, np.memmap, (0,), b"b"),
        Call(getattr, 1, "real"),
    ],
    ids=["print", "frombuffer", "recarray", "memmap", "getattr"],
)
def test_nothing_else_is_called(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="wants to run"):
        loaded(call)
    assert capsys.readouterr().out == ""


def array_with(*state: object) -> Call:
    return Call(_reconstruct, np.ndarray, (0,), b"b", state=state)


U1 = np.dtype("u1")
POINTER = struct.pack("<Q", 0x4141414141414141)


@pytest.mark.parametrize(
    "call",
    [
        array_with(1, (1,), np.dtype("O"), False, [object]),  # objects
        array_with(1, (1,), np.dtype("O"), False, POINTER),  # an address of the attacker
        array_with(1, (1,), np.dtype([("a", "u1")]), False, b"x"),
        array_with(1, (1,), np.dtype("M8[s]"), False, POINTER),
        array_with(1, (1,), np.dtype("S8"), False, POINTER),
        array_with(1, (1 << 62,), U1, False, b"x"),  # a larger size than the bytes give
        array_with(1, (1 << 40, 1 << 40), U1, False, b""),
        array_with(1, (-1,), U1, False, b"x"),
        array_with(1, (2.0,), U1, False, b"xx"),
        array_with(1, (1,) * 40, U1, False, b"x"),
        array_with(1, (1,), "u1", False, b"x"),
        array_with(1, (1,), U1, False, ["x"]),
        array_with(1, (1,)),
        Call(_reconstruct, 3, (0,), b"b"),
        Call(np.dtype, "O", False, True),
        Call(np.dtype, "u1", False, True, state=(3, "|", (U1, (2,)), None, None, -1, -1, 0)),  # with inner arrays
        Call(np.dtype, "u1", False, True, state=(3, "?", None, None, None, -1, -1, 0)),
    ],
)
def test_what_is_no_plain_array_is_refused(call: Call) -> None:
    with pytest.raises(UserError, match=r"is damaged|wants to run"):
        loaded(call)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02Nr\xff\xff\xff\x7f.",  # a memory cell that would take 16 GB
        b"\x80\x04B\xff\xff\xff\xffx.",  # a text longer than the file
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b".",
        b"cnumpy\ndtype\n}U\x01xK\x01sb.",  # a function with a new attribute
        b"cnumpy\ndtype\n(NU\x0c__defaults__(tdtb.",
        b"\x80\x02]q\x00h\x00\x85R.",  # calls a list
        b"(i__builtin__\nlist\n.",
        b"P1\n.",  # asks for an object outside the pickle
        b"\x82\x01.",
        b"(" * 100_000 + b".",
        b".",
        b"",
        b"\x00",
    ],
)
def test_a_strange_program_is_refused(content: bytes) -> None:
    with pytest.raises(UserError, match=r"is damaged|wants to run"):
        load_arrays(io.BytesIO(content))


def test_depth_ends_nothing() -> None:
    """A hundred thousand nested lists are read correctly."""
    found = load_arrays(io.BytesIO(b"]" * 100_000 + b"a" * 99_999 + b"."))
    for _ in range(99_999):
        (found,) = found
    assert found == []
