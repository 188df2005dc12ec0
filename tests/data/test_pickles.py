"""A pickle gives arrays, numbers, texts and containers, and never runs anything else."""

import io
import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rtm.core.errors import UserError
from rtm.data.pickles import load_arrays


class Call:
    """Its pickle calls `function` when somebody loads it."""

    def __init__(self, function: Callable[..., Any], *arguments: object) -> None:
        self.reduced = (function, arguments)

    def __reduce__(self) -> Any:
        return self.reduced


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("kind", ["u1", "<i8", ">f4"])
def test_arrays_and_containers_come_as_pickle_gives_them(protocol: int, kind: str) -> None:
    array = np.asfortranarray(np.arange(12).reshape(3, 4).astype(kind))
    value = {"a": array, "b": [1, 2.5, None, True], "c": (array[:, 1], "text"), "d": OrderedDict(x=np.float32(1.5))}
    content = pickle.dumps(value, protocol=protocol)
    loaded = load_arrays(io.BytesIO(content))
    assert np.array_equal(loaded["a"], array)
    assert loaded["a"].dtype == pickle.loads(content)["a"].dtype
    assert loaded["b"] == value["b"]
    assert np.array_equal(loaded["c"][0], array[:, 1])
    assert loaded["d"] == {"x": 1.5}


def test_python_2_gives_byte_strings() -> None:
    assert load_arrays(io.BytesIO(b"(dp0\nS'labels'\np1\n(lp2\nI3\nas.")) == {b"labels": [3]}


@pytest.mark.parametrize(
    "call",
    [Call(print, "ran"), Call(np.frombuffer, b"abc"), Call(getattr, 1, "real")],
    ids=["print", "numpy", "getattr"],
)
def test_nothing_else_is_called(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="wants to run"):
        load_arrays(io.BytesIO(pickle.dumps(call)))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("content", [b"", b".", b"\x00", pickle.dumps([1, 2])[:-2]])
def test_a_damaged_pickle_is_one_sentence(content: bytes) -> None:
    with pytest.raises(UserError, match="is damaged"):
        load_arrays(io.BytesIO(content))
