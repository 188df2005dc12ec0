"""Classes that params/ names as "package.module:Class": found without running their code, imported on first use."""

import hashlib
import inspect
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rtm.core.errors import UserError

NAME = r"[A-Za-z_]\w*"
PATTERN = rf"^{NAME}(\.{NAME})*:{NAME}$"


def imported(name: str) -> Any:
    """The class or function of this name."""
    module, _, attribute = name.partition(":")
    source_of(name)
    found = getattr(import_module(module), attribute, None)
    if found is None:
        raise UserError(f"The module {module} has no {attribute}; correct {name!r} in params/.")
    return found


def built(name: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Build an object of the class. `given` goes to every class of its kind, `options` are those of params/."""
    cls = imported(name)
    if not inspect.isclass(cls):
        raise UserError(f"{name} is not a class; name one in params/.")
    parameters = inspect.signature(cls).parameters.values()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    named = {each.name: each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    if absent := [key for key in given if not (key in named or takes_any)]:
        raise UserError(f"{name} has no parameter {', '.join(absent)}; add it to the class's __init__.")
    taken = {key: parameter for key, parameter in named.items() if key not in given}
    unknown = [key for key in options if key in given or not (key in taken or takes_any)]
    missing = [key for key in taken if taken[key].default is inspect.Parameter.empty and key not in options]
    if unknown or missing:
        problem = f"does not take {', '.join(unknown)}" if unknown else f"needs {', '.join(missing)}"
        raise UserError(f"{name} {problem}; its options are {', '.join(taken) or 'none'}.")
    return cls(**given, **options)


def source_digest(name: str) -> str:
    """A hash of the file that defines the class; in a package, of all files beside and below it."""
    file = source_of(name)
    beside = sorted(file.parent.rglob("*.py")) if (file.parent / "__init__.py").exists() else [file]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in beside)).hexdigest()[:16]


def source_of(name: str) -> Path:
    """The file that defines a class, found without running it or the packages around it."""
    module = name.partition(":")[0]
    top, *below = module.split(".")
    spec = None if top == "__main__" else find_spec(top)
    for part in below:
        path = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", path) if spec and path else None
    if spec is None or spec.origin is None or not spec.has_location:
        raise UserError(f"There is no module {module} for {name!r}; correct it, or put its folder on PYTHONPATH.")
    return Path(spec.origin)
