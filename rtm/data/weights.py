"""The tensors of a frozen network that was fetched."""

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from rtm.core.advice import at_scale
from rtm.core.errors import UserError
from rtm.core.readers import reading

Tensors = dict[str, Tensor]


def load_network(path: Path) -> Tensors:
    """The tensors of a fetched network."""
    command = f"rtm fetch {path.stem}{at_scale(path, 2)}"
    if not path.exists():
        raise UserError(f"{path} is missing; get it with `{command}`.")
    with reading(path, f"get it again with `{command}`"):
        return load_file(path)
