"""Classes that params/ names as "package.module:Class": found without running their code, imported on first use."""

import hashlib
import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin

from rtm.core.errors import UserError

NAME = r"[A-Za-z_]\w*"
PATTERN = rf"^{NAME}(\.{NAME})*:{NAME}$|^{NAME}(\.{NAME})+$"  # package.module:Class or package.module.Class
OWN = "package.module:Class"


def is_own(kind: object) -> TypeGuard[str]:
    """Whether a kind is the full name of a class, not a short name."""
    return isinstance(kind, str) and (":" in kind or "." in kind)


def with_colon(kind: str) -> str:
    """The name as package.module:Class; also accepts package.module.Class."""
    module, _, name = kind.rpartition(".")
    return kind if ":" in kind or not module else f"{module}:{name}"


def unknown(kind: str, known: Iterable[str]) -> str:
    """The message for an unknown short name: it says what to write instead."""
    names = list(known)
    near = get_close_matches(kind, names, n=2, cutoff=0.4)
    meant = f"did you mean {' or '.join(near)}" if near else f"choose {', '.join(names)}"
    return f"there is no kind {kind!r}; {meant}, or a class of your own ({OWN}){'?' if near else ''}"


def imported(name: str) -> Any:
    """The class or function of this name."""
    module, _, attribute = name.partition(":")
    source_of(name)
    found = getattr(import_module(module), attribute, None)
    if found is None:
        raise UserError(f"The module {module} has no {attribute}; correct {name!r} in params/.")
    return found


def built(name: str | type, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Call a class or function with `given` (the same for every class of its kind) and the `options` from params/."""
    cls, name = (imported(name), name) if isinstance(name, str) else (name, f"{name.__module__}:{name.__qualname__}")
    if not callable(cls):
        raise UserError(f"{name} is neither a class nor a function; name one in params/.")
    parameters = inspect.signature(cls).parameters.values()
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters)
    named = {each.name: each for each in parameters if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)}
    if absent := [key for key in given if not (key in named or takes_any)]:
        raise UserError(f"{name} has no parameter {', '.join(absent)}; add it to the class's __init__.")
    taken = {key: parameter for key, parameter in named.items() if key not in given}
    strange = [key for key in options if key in given or not (key in taken or takes_any)]
    missing = [key for key in taken if taken[key].default is inspect.Parameter.empty and key not in options]
    if strange or missing:
        problem = f"does not take {', '.join(strange)}" if strange else f"needs {', '.join(missing)}"
        raise UserError(f"{name} {problem}; its options are {', '.join(taken) or 'none'}.")
    for key in options.keys() & taken.keys():
        if not _fits(options[key], taken[key].annotation):
            wanted = inspect.formatannotation(taken[key].annotation)
            raise UserError(f"{name} takes {key}: {wanted}, not {options[key]!r}; correct it in params/.")
    return cls(**given, **options)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from params/ has the annotated type. If the annotation is no plain type, the class must check."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in parts
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    kind: Any = {int: int, float: int | float, bool: bool, str: str, None: NoneType, NoneType: NoneType}.get(hint)
    return kind is None or (isinstance(value, kind) and (hint is bool or not isinstance(value, bool)))


def source_digest(name: str) -> str:
    """A hash of the file that defines the class; in a package, of all files beside and below it."""
    file = source_of(name)
    beside = sorted(file.parent.rglob("*.py")) if (file.parent / "__init__.py").exists() else [file]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in beside)).hexdigest()[:16]


def source_of(name: str) -> Path:
    """The file that defines a class. Neither this file nor its packages are run to find it."""
    module = name.partition(":")[0]
    top, *below = module.split(".")
    spec = None if top == "__main__" else find_spec(top)
    for part in below:
        path = spec.submodule_search_locations if spec else None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", path) if spec and path else None
    if spec is None or spec.origin is None or not spec.has_location:
        raise UserError(f"There is no module {module} for {name!r}; correct it, or put its folder on PYTHONPATH.")
    return Path(spec.origin)
