"""Measure any images against any others from Python, without `params/` and without the pipeline."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.data.fetch import fetch_network
from rtm.metrics.compare import ImageSource, compare
from rtm.metrics.images import Pictures, load_images
from rtm.metrics.networks import Weights
from rtm.metrics.result import Result

PROTOCOLS = Path(__file__).parent / "protocols.yaml"  # in a clone a link to params/, so that there is one truth
Images = str | Path | NDArray[np.generic]


def evaluate(
    images: Images,  # a folder of PNG, JPEG, ..., an .npy or .npz file, or an array (N, H, W, 3)
    reference: Images,  # to compare with
    protocol: str = "paper",  # of params/protocols.yaml
    samples: int | None = None,  # measure a random subset of so many images; by default all
    check: bool = False,  # ask other packages, too
) -> Result:
    """FID, KID, precision, recall, density, coverage and, where the weights allow it, the inception score."""
    chosen = protocol_named(protocol)
    one = _source(images, "images")
    other = _source(reference, "reference")
    count = len(one.images) if samples is None else samples
    kept = cache() / "features"
    return Result(compare(one, other, protocol, chosen, weights_of(chosen), kept, count, check=check))


def protocol_named(name: str) -> Protocol:
    protocols = yaml.safe_load(PROTOCOLS.read_text("utf-8"))["protocols"]
    if name not in protocols:
        raise UserError(f"There is no protocol {name}; choose one of {', '.join(protocols)}.")
    return Protocol.model_validate(protocols[name])


def weights_of(protocol: Protocol) -> Weights:
    """The weights of a protocol's networks: those of this folder, or of the user's cache. Missing ones are fetched."""
    return {name: _weights(name) for name in (protocol.extractor, protocol.pr_extractor)}


def cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rtm"


def _weights(name: str) -> Path:
    here = Path("weights") / f"{name}.safetensors"
    if here.exists():
        return here
    path = cache() / here
    if not path.exists():
        fetch_network(name, path, cache() / "downloads")
    return path


def _source(images: Images, role: str) -> ImageSource:
    if isinstance(images, str | Path):
        return ImageSource(str(images), load_images(Path(images)))
    return ImageSource(role, _pixels(images, role))


def _pixels(images: Any, role: str) -> Pictures:
    array = np.asarray(images)
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[-1] != 3:
        raise UserError(f"The {role} are {array.dtype} {array.shape}; give uint8 (N, H, W, 3), a folder or a file.")
    pixels: NDArray[np.uint8] = array
    return pixels
