"""Read pickles that hold plain containers and numpy arrays; anything else in them is refused, never run."""

import pickle
from typing import IO, Any

from rtm.core.errors import UserError

_ALLOWED = {(f"numpy.{core}.multiarray", name) for core in ("core", "_core") for name in ("_reconstruct", "scalar")} | {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
}


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UserError(f"The file wants to run {module}.{name}; it is not the data that was expected.")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def load_arrays(file: IO[bytes]) -> Any:
    """The content of a pickle, with byte strings for keys where it comes from Python 2."""
    try:
        return _ArraysOnly(file, encoding="bytes").load()
    except (pickle.UnpicklingError, EOFError, ValueError):
        raise UserError("The file is damaged; get it again.") from None
