"""The training methods by name. They are imported only when used, so a change of one keeps the others' results fresh.

A new method needs no line here: `method.kind` in params/ names its class, a `Method` whose __init__ takes `setting`
and options. It trains the generator that rtm.models.registry builds. A line in METHODS gives it a short name.
"""

from typing import TYPE_CHECKING, cast

from rtm.config import Experiment
from rtm.config.classes import built
from rtm.config.parameters import pick

if TYPE_CHECKING:
    from rtm.methods.base import Method, Setting

METHODS = {
    "imle": "rtm.methods.imle.method:ImleMethod",
    "stylegan2": "rtm.methods.stylegan2.method:StyleGAN2Method",
}


def method_class(experiment: Experiment) -> str:
    method = experiment.recipe.method
    if method is None:
        return METHODS["imle" if experiment.recipe.imle else "stylegan2"]
    if ":" in method.kind:
        return method.kind
    return pick(METHODS, method.kind, "method")


def build_method(setting: "Setting") -> "Method":
    method = setting.experiment.recipe.method
    options = method.options() if method else {}
    name = method_class(setting.experiment)
    return cast("Method", built(name, {"setting": setting}, options))
