"""Classes that params/ names as "package.module:Class": found without running their code, imported on first use."""

import hashlib
import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from inspect import Parameter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeGuard, Union, get_args, get_origin

from rtm.core.errors import UserError

NAME = r"[A-Za-z_]\w*"
PATTERN = rf"^{NAME}(\.{NAME})*:{NAME}$|^{NAME}(\.{NAME})+$"  # package.module:Class or package.module.Class
OWN = "package.module:Class"
VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


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
    similar = get_close_matches(kind, names, n=2, cutoff=0.4)
    if similar:
        return f"there is no kind {kind!r}; did you mean {' or '.join(similar)}, or a class of your own ({OWN})?"
    return f"there is no kind {kind!r}; choose {', '.join(names)}, or a class of your own ({OWN})"


def imported(name: str) -> Any:
    """The class or function of this name."""
    module, _, attribute = name.partition(":")
    source_of(name)
    value = getattr(import_module(module), attribute, None)
    if value is None:
        raise UserError(f"The module {module} has no {attribute}; correct {name!r} in params/.")
    return value


def built(name: str | type, common: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Call a class or function with `common` (the same for every class of its kind) and the `options` from params/."""
    if isinstance(name, str):
        cls = imported(name)
    else:
        cls = name
        name = f"{cls.__module__}:{cls.__qualname__}"
    if not callable(cls):
        raise UserError(f"{name} is neither a class nor a function; name one in params/.")
    parameters = inspect.signature(cls).parameters
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    named = {key: parameter for key, parameter in parameters.items() if parameter.kind not in VARIADIC}
    absent = [key for key in common if key not in named]
    if absent and not takes_any:
        raise UserError(f"{name} has no parameter {', '.join(absent)}; add it to the class's __init__.")
    _check_options(name, {key: named[key] for key in named if key not in common}, takes_any, common, options)
    return cls(**common, **options)


def _check_options(
    name: str,
    parameters: Mapping[str, Parameter],  # that the options may set
    takes_any: bool,
    common: Mapping[str, Any],
    options: Mapping[str, Any],
) -> None:
    known = ", ".join(parameters) or "none"
    strange = [key for key in options if key in common or not (takes_any or key in parameters)]
    if strange:
        raise UserError(f"{name} does not take {', '.join(strange)}; its options are {known}.")
    missing = [key for key, parameter in parameters.items() if parameter.default is Parameter.empty]
    missing = [key for key in missing if key not in options]
    if missing:
        raise UserError(f"{name} needs {', '.join(missing)}; its options are {known}.")
    for key in options.keys() & parameters.keys():
        hint = parameters[key].annotation
        if not _fits(options[key], hint):
            kind = inspect.formatannotation(hint)
            raise UserError(f"{name} takes {key}: {kind}, not {options[key]!r}; correct it in params/.")


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value from params/ has the annotated type. If the annotation is no plain type, the class must check."""
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if hint in (None, NoneType):
        return value is None
    if hint in (int, float) and isinstance(value, bool):
        return False
    if hint is float:
        return isinstance(value, int | float)
    return hint not in (int, bool, str) or isinstance(value, hint)


def source_digest(name: str) -> str:
    """A hash of the file that defines the class; in a package, of all files beside and below it."""
    file = source_of(name)
    files = [file]
    if (file.parent / "__init__.py").exists():
        files = sorted(file.parent.rglob("*.py"))
    content = b"\0".join(path.read_bytes() for path in files)
    return hashlib.sha256(content).hexdigest()[:16]


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
