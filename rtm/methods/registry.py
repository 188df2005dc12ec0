"""The training methods by name, imported only when used: a change of one leaves the other's results fresh."""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from rtm.config import Experiment

if TYPE_CHECKING:
    from torch import nn

    from rtm.methods.base import Method, Setting

MODULES = {"imle": "rtm.methods.imle.method", "stylegan2": "rtm.methods.stylegan2.method"}


def module_of(experiment: Experiment) -> str:
    return MODULES["imle" if experiment.recipe.imle else "stylegan2"]


def build_generator(experiment: Experiment) -> "nn.Module":
    build = cast("Callable[[Experiment], nn.Module]", import_module(module_of(experiment)).build_generator)
    return build(experiment)


def build_method(setting: "Setting") -> "Method":
    build = cast("Callable[[Setting], Method]", import_module(module_of(setting.experiment)).build_method)
    return build(setting)
