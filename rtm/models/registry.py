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


def mapper_class(mapper: Mapper) -> str:
    return MAPPERS.get(mapper.kind, mapper.kind)


def generator_builder(experiment: Experiment) -> str:
    return GENERATORS["stylegan2" if experiment.recipe.stylegan2 else "decoder"]


def build_mapper(mapper: Mapper, dim: int, in_dim: int | None = None) -> "nn.Module":
    given = {"dim": dim, "in_dim": in_dim or dim}
    return cast("nn.Module", built(mapper_class(mapper), given, mapper.options()))


def build_generator(experiment: Experiment) -> "nn.Module":
    return cast("nn.Module", imported(generator_builder(experiment))(experiment))
