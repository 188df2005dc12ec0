"""Read pickles that hold plain containers, numbers, texts and numeric numpy arrays; everything else is refused.

A pickle is a program for a small machine. All its instructions are checked before the first one runs. The program may
call only the few functions below, which check their arguments. numpy's own functions would accept a pointer from the
file (an array of objects), a size that differs from the data, or a subclass.
"""

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from rtm.core.errors import UserError, printable

_INSTRUCTIONS = re.compile(
    "PROTO|FRAME|STOP|MARK|POP|POP_MARK|DUP|NONE|NEWTRUE|NEWFALSE|INT|BININT[12]?|LONG[14]?|FLOAT|BINFLOAT|STRING|"
    "(SHORT_)?BINSTRING|UNICODE|(SHORT_)?BINUNICODE|BINUNICODE8|(SHORT_)?BINBYTES|BINBYTES8|EMPTY_(LIST|TUPLE|DICT)|"
    "LIST|APPENDS?|TUPLE[123]?|DICT|SETITEMS?|(LONG_BIN|BIN)?(GET|PUT)|MEMOIZE|GLOBAL|STACK_GLOBAL|REDUCE|BUILD"
)
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
_NUMBERS = {"b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"}
_ORDERS = {"<", ">", "=", "|"}
_DIMENSIONS = 32
# exceptions that the machine raises for senseless instructions
_DAMAGED = (
    *(pickle.UnpicklingError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(OverflowError, MemoryError, RecursionError),
)


def load_arrays(file: IO[bytes]) -> Any:
    """The content of a pickle. If it comes from Python 2, keys are byte strings."""
    content = file.read()
    try:
        _check_instructions(content)
        return _ArraysOnly(io.BytesIO(content), encoding="bytes").load()
    except _DAMAGED:
        raise UserError("The file is damaged; get it again.") from None


def _check_instructions(content: bytes) -> None:
    """Raise an error for other instructions, and for a memory cell far beyond the last one, because the machine would
    reserve all cells before it."""
    for number, (instruction, argument, _) in enumerate(pickletools.genops(content)):
        if not _INSTRUCTIONS.fullmatch(instruction.name):
            raise pickle.UnpicklingError(f"{instruction.name} has no place in a file of arrays")
        if instruction.name in _PUTS and not 0 <= int(argument or 0) <= number:
            raise pickle.UnpicklingError("a memory cell out of order")


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        known = _KNOWN.get((module.replace("numpy._core", "numpy.core"), name))
        if known is None:
            wanted = printable(f"{module}.{name}")
            raise UserError(f"The file wants to run {wanted}; it is not the data that was expected.")
        return known


class _Function:
    """A function that a pickle may call and cannot change."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(self, *arguments: Any) -> Any:
        return self._call(*arguments)

    def __setstate__(self, state: object) -> None:
        raise pickle.UnpicklingError("a function has no state")


class _Type:
    """numpy.dtype, for numbers only. The pickle gives its name first and its byte order later."""

    __slots__ = ("name", "order")

    def __init__(self, name: object, *_: object) -> None:
        self.name, self.order = _one_of(_NUMBERS, name), "="

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _version, order, inner, names, fields, *_ = state
        if (inner, names, fields) != (None, None, None):
            raise pickle.UnpicklingError("a type with parts")
        self.order = _one_of(_ORDERS, order)

    def real(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.name)


class _Array(np.ndarray[Any, Any]):
    """numpy.ndarray. It is empty until its state has been checked."""

    def __setstate__(self, state: tuple[Any, ...], /) -> None:
        _version, shape, kind, fortran, content = state
        whole = isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)
        if not (whole and len(shape) <= _DIMENSIONS and isinstance(kind, _Type) and isinstance(content, bytes)):
            raise pickle.UnpicklingError("not an array of numbers")
        if math.prod(shape) * kind.real().itemsize != len(content):
            raise pickle.UnpicklingError("an array with another size than its data")
        checked: Any = (1, shape, kind.real(), bool(fortran), content)  # Any, because numpy's stub wants a numpy.bool
        super().__setstate__(checked)


def _one_of(allowed: set[str], given: object) -> str:
    """The word, if it is allowed; Python 2 writes such words as bytes."""
    word = given.decode("ascii") if isinstance(given, bytes) else given
    if not isinstance(word, str) or word not in allowed:
        raise pickle.UnpicklingError(f"{word!r} is none of {sorted(allowed)}")
    return word


def _empty(kind: object, *_: object) -> _Array:
    if kind is not _NDARRAY:
        raise pickle.UnpicklingError("not a plain array")
    return _Array((0,), np.uint8)


def _scalar(kind: _Type, content: bytes) -> Any:
    (value,) = np.frombuffer(content, kind.real())
    return value


def _encoded(text: str, encoding: str) -> bytes:
    """Bytes from their form in a pickle that Python 3 wrote for Python 2."""
    return text.encode(_one_of({"latin1"}, encoding))


_NDARRAY = _Function(_empty)  # never called, only an argument of _reconstruct
_KNOWN = {
    ("numpy.core.multiarray", "_reconstruct"): _Function(_empty),
    ("numpy.core.multiarray", "scalar"): _Function(_scalar),
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _Function(_Type),
    ("_codecs", "encode"): _Function(_encoded),
    ("collections", "OrderedDict"): _Function(dict),
}
