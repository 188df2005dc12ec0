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


def mapper_class(kind: str) -> str:
    return MAPPERS.get(kind, kind)


def generator_builder(architecture: Architecture) -> str:
    return GENERATORS["stylegan2" if architecture.stylegan2 else "decoder"]


def build_mapper(mapper: Mapping[str, Any], dim: int, in_dim: int | None = None) -> "nn.Module":
    options = dict(mapper)
    kind = mapper_class(options.pop("kind"))
    sizes = {"dim": dim, "in_dim": in_dim or dim}
    return cast("nn.Module", built(kind, sizes, options))


def build_generator(architecture: Architecture) -> "nn.Module":
    return cast("nn.Module", imported(generator_builder(architecture))(architecture))
