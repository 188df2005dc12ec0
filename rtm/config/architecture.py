"""All that a generator is built from. A checkpoint carries it, so that it needs neither params/ nor this repository."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERSION = "0.1.0"  # of the package; pyproject.toml reads it here
FORMAT = 1  # of a checkpoint's metadata; a reader refuses those that it does not know


@dataclass(frozen=True)
class Architecture:
    """Plain values, as JSON holds them; exactly one of `decoder` and `stylegan2` is given."""

    dim: int  # d, of z and w
    resolution: int  # of the images
    classes: int  # that the generator is conditioned on; 0: unconditional
    mapper: Mapping[str, Any]  # kind and options
    decoder: Mapping[str, Any] | None
    stylegan2: Mapping[str, Any] | None  # options of the synthesis network
    tf32: bool  # on a GPU, whether its float32 convolutions round their inputs
