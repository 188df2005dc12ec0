"""All stages, found by their files: a new file in this folder is a new stage."""

from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pkgutil import iter_modules

from rtm.stages.base import Stage


@cache
def stages() -> dict[str, Stage]:
    """The stages by name, each after those that it reads."""
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    classes = [each for each in Stage.__subclasses__() if each.__module__.startswith(f"{__name__}.")]
    known = {each.name: each() for each in sorted(classes, key=lambda each: each.name)}
    read = {name: stage.reads.keys() - {name} for name, stage in known.items()}
    return {name: known[name] for name in TopologicalSorter(read).static_order()}
