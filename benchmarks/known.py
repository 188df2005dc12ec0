"""Known answers: write numbers that follow from architectures and from two fixed images into docs/known/.

`python -m benchmarks.known` makes the files again; tests/test_known.py compares them with the results of the code.
"""

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from rtm.config import Config, load
from rtm.config.architecture import VERSION, Architecture
from rtm.core.files import write_json
from rtm.core.readers import checkpoint_metadata
from rtm.methods.imle.perceptual import distance, load_maps
from rtm.models.decoders import Decoder
from rtm.models.layers import parameters
from rtm.models.registry import build_generator, build_mapper

FOLDER = Path(__file__).parents[1] / "docs" / "known"
SCALES = ("paper", "desk", "demo")
DIM = 512
Counts = dict[str, dict[str, dict[str, int]]]
COMMAND = "python -m benchmarks.known"


def counted(architecture: Architecture) -> dict[str, int]:
    """Parameters, and FLOPs of matrix products and convolutions for one image. No image is computed."""
    with torch.device("meta"):
        generator = build_generator(architecture).requires_grad_(False)
        z = torch.empty(1, architecture.dim)
        labels = torch.zeros(1, dtype=torch.long) if architecture.classes else None
        with FlopCounterMode(display=False) as whole:
            generator(z, labels=labels)
    parts = {
        "mapper": cast(nn.Module, generator.mapper),
        "decoder": generator.synthesis if architecture.stylegan2 else generator.decoder,
        "generator": generator,
    }
    flops = (sum(found.values()) for name, found in whole.get_flop_counts().items() if name.endswith(".mapper"))
    return {
        **{f"{name}_parameters": parameters(cast(nn.Module, part)) for name, part in parts.items()},
        "mapper_flops": next(flops),
        "generator_flops": whole.get_total_flops(),
    }


def architectures(config: Config) -> Iterator[tuple[str, Architecture]]:
    """Each different architecture, with the name of its first experiment."""
    seen: list[Architecture] = []
    for experiment in config.experiments.values():
        if experiment.architecture not in seen:
            seen.append(experiment.architecture)
            yield experiment.name, experiment.architecture


def generators() -> Counts:
    return {
        scale: {name: counted(architecture) for name, architecture in architectures(load(scale))} for scale in SCALES
    }


def parts() -> Counts:
    """Counts for each single mapper and decoder of params/, with a w of 512 numbers and without labels."""
    params = load("paper").params
    with torch.device("meta"):
        mappers = {
            name: build_mapper({"kind": each.kind, **each.options()}, DIM) for name, each in params.mappers.items()
        }
        decoders = {name: Decoder(DIM, **each.model_dump()) for name, each in params.decoders.items()}
    found: dict[str, dict[str, nn.Module]] = {"mappers": mappers, "decoders": dict(decoders)}
    return {
        kind: {"parameters": {name: parameters(each) for name, each in all_.items()}} for kind, all_ in found.items()
    }


def two_images(side: int = 64) -> tuple[Tensor, Tensor]:
    """Waves and their mirror image with less contrast, in whole steps of 8 bits, (1, 3, side, side) in [-1, 1]."""
    y, x = np.mgrid[:side, :side] * (6.0 / side)
    waves = np.rint(np.stack([np.sin(x * y + c) + np.cos(3 * x - c * y) for c in range(3)]) * 60 + 127.5)
    first, second = (torch.from_numpy(each[None] / 127.5 - 1).float() for each in (waves, np.rint(waves / 2 + 40)))
    return first, second.flip(3)


def lpips_of_two_images(weights: Path) -> float:
    maps = load_maps("lpips", weights)
    with torch.inference_mode():
        first, second = (maps(image) for image in two_images())
        return float(distance(first, second))


def lpips_by_its_package(weights: Path) -> float:
    """The distance from the lpips package's own network with the same convolutions."""
    import lpips

    from rtm.data.weights import load_network
    from rtm.models.vgg16 import load_vgg16

    theirs = lpips.LPIPS(net="vgg", pnet_rand=True, verbose=False).eval()
    features = load_vgg16(load_network(weights)).features
    for position, layer in enumerate(features):
        for block in (theirs.net.slice1, theirs.net.slice2, theirs.net.slice3, theirs.net.slice4, theirs.net.slice5):
            if str(position) in dict(block.named_children()) and layer.state_dict():
                block.get_submodule(str(position)).load_state_dict(layer.state_dict())
    with torch.inference_mode():
        return float(theirs(*two_images()))


def provenance() -> dict[str, Any]:
    return {"command": COMMAND, "rtm": VERSION, "torch": version("torch"), "lpips": version("lpips")}


def main() -> None:
    write_json(FOLDER / "networks.json", parts() | {"generators": generators(), "provenance": provenance()})
    weights = Path("weights/vgg16.safetensors")
    values = {"ours": lpips_of_two_images(weights), "package": lpips_by_its_package(weights)}
    origin = provenance() | {"weights": checkpoint_metadata(weights)}
    write_json(FOLDER / "lpips.json", {"lpips": values, "provenance": origin})


if __name__ == "__main__":
    main()
