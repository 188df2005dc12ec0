"""The mappers and generators by name. They are imported only when used, so a change of one keeps other results fresh.

A new mapper needs no line here: `kind` in params/ names its class. The class takes `dim` (the size of w), `in_dim`
(the size of its input) and options; an object of it turns (batch, in_dim) into (batch, dim). The same for a decoder:
its class takes `dim`, `resolution` and options, and turns w (batch, dim) into images (batch, 3, R, R) in [-1, 1].
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from rtm.config.architecture import Architecture
from rtm.config.classes import built, imported

if TYPE_CHECKING:
    from torch import nn

MAPPERS = {"mlp": "rtm.models.mappers:MLPMapper", "rtm": "rtm.models.mappers:RTM"}
GENERATORS = {
    "decoder": "rtm.models.generator:build_generator",
    "stylegan2": "rtm.models.stylegan2.generator:build_generator",
}

# a choice in params/ and the definition that it does not use, so that a change of the definition keeps results fresh
UNUSED = {
    ("mapper", "mixer"): "rtm.models.mappers:Attention",
    ("decoder", "residual"): "rtm.models.decoders:ConvNeXtBranch",
    ("decoder", "convnext"): "rtm.models.decoders:ResidualBranch",
}


def unused(architecture: Architecture) -> tuple[str, ...]:
    """The definitions that a generator's code names but its parameters do not use."""
    chosen = {"mapper": architecture.mapper, "decoder": architecture.decoder or {}}
    blocks = ((part, options.get("block")) for part, options in chosen.items())
    return tuple(UNUSED[block] for block in blocks if block in UNUSED)


def mapper_class(kind: str) -> str:
    return MAPPERS.get(kind, kind)


def generator_builder(architecture: Architecture) -> str:
    return GENERATORS["stylegan2" if architecture.stylegan2 else "decoder"]


def build_mapper(mapper: Mapping[str, Any], dim: int, in_dim: int | None = None) -> "nn.Module":
    options = dict(mapper)
    kind, given = mapper_class(options.pop("kind")), {"dim": dim, "in_dim": in_dim or dim}
    return cast("nn.Module", built(kind, given, options))


def build_generator(architecture: Architecture) -> "nn.Module":
    return cast("nn.Module", imported(generator_builder(architecture))(architecture))
