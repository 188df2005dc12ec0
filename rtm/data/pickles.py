"""Read a pickle of numpy arrays and plain containers, whose checksum is known. It can call nothing else."""

import pickle
from typing import IO, Any

from rtm.core.errors import UserError, printable
from rtm.core.readers import UNREADABLE

ALLOWED = {
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("_codecs", "encode"),
    ("collections", "OrderedDict"),
}


def load_arrays(file: IO[bytes]) -> Any:
    """The content of a pickle. If it comes from Python 2, keys are byte strings."""
    try:
        return _ArraysOnly(file, encoding="bytes").load()
    except UNREADABLE:
        raise UserError("The file is damaged; get it again.") from None


class _ArraysOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core", "numpy._core")
        if (module, name) not in ALLOWED:
            function = printable(f"{module}.{name}")
            raise UserError(f"The file wants to run {function}; it is not the data that was expected.")
        return super().find_class(module, name)
