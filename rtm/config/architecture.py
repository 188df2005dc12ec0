"""All values that define a generator. A checkpoint carries them, so it can be loaded without params/ or this clone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

VERSION = "0.2.0"  # of the package; pyproject.toml reads it here
FORMAT = 1  # version of a checkpoint's metadata; a reader refuses versions that it does not know

DEEPEST = 4096  # limit for the steps and the inner cycles of a recursive mapper
MOST_PASSES = 4 * DEEPEST  # limit for the passes through its block, so that a foreign file cannot run for ever


@dataclass(frozen=True)
class Architecture:
    """Plain JSON values. Exactly one of `decoder` and `stylegan2` is given."""

    dim: int  # d, of z and w
    resolution: int  # of the images
    classes: int  # number of class labels; 0: unconditional
    mapper: Mapping[str, Any]  # kind and options
    decoder: Mapping[str, Any] | None
    stylegan2: Mapping[str, Any] | None  # options of the synthesis network
    tf32: bool  # whether float32 convolutions on a GPU round their inputs
