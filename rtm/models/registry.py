"""The mappers and generators by name, imported only when used: a change of one leaves the others' results fresh.

A new mapper needs no line here: `kind` in params/ names its class. The class takes `dim` (the size of w), `in_dim`
(the size of its input) and options; an object of it turns (batch, in_dim) into (batch, dim).
"""

from typing import TYPE_CHECKING, cast

from rtm.config import Experiment
from rtm.config.classes import built, imported
from rtm.config.experiments import Mapper

if TYPE_CHECKING:
    from torch import nn

MAPPERS = {"mlp": "rtm.models.mappers:MLPMapper", "rtm": "rtm.models.mappers:RTM"}
GENERATORS = {
    "decoder": "rtm.models.generator:build_generator",
    "stylegan2": "rtm.models.stylegan2.generator:build_generator",
}

# a choice in params/ and the definition that it does not use: a change of that definition leaves its results fresh
UNUSED = {
    ("mapper", "mixer"): "rtm.models.mappers:Attention",
    ("decoder", "residual"): "rtm.models.decoders:ConvNeXtBranch",
    ("decoder", "convnext"): "rtm.models.decoders:ResidualBranch",
}


def unused(experiment: Experiment) -> tuple[str, ...]:
    """What a generator's code mentions and its parameters do not select."""
    chosen = {"mapper": experiment.mapper, "decoder": experiment.decoder}
    blocks = ((part, getattr(config, "block", None)) for part, config in chosen.items())
    return tuple(UNUSED[block] for block in blocks if block in UNUSED)


def mapper_class(mapper: Mapper) -> str:
    return MAPPERS.get(mapper.kind, mapper.kind)


def generator_builder(experiment: Experiment) -> str:
    return GENERATORS["stylegan2" if experiment.recipe.stylegan2 else "decoder"]


def build_mapper(mapper: Mapper, dim: int, in_dim: int | None = None) -> "nn.Module":
    given = {"dim": dim, "in_dim": in_dim or dim}
    return cast("nn.Module", built(mapper_class(mapper), given, mapper.options()))


def build_generator(experiment: Experiment) -> "nn.Module":
    return cast("nn.Module", imported(generator_builder(experiment))(experiment))
