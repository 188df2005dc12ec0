"""Code by what it means: a hash that comments, docstrings, formatting, order and hints of arguments leave alone.

What counts is every definition that a stage's entries ("module" or "module:name") reach by name, through all of
`rtm/`. A definition that none reaches does not count, so a new dataset reader leaves trainings fresh. An entry with a
slash is a folder of other files, templates say, which count by their bytes.
"""

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from rtm.core.files import digest

PACKAGE = Path(__file__).parents[1]
# values of params/ are in the fingerprint themselves; where files live and what is told on the way is no result
UNCOUNTED = (
    *("rtm.cli", "rtm.config", "rtm.core.errors", "rtm.core.files", "rtm.core.layout", "rtm.core.progress"),
    *("rtm.lineage", "rtm.methods.registry", "rtm.models.registry", "rtm.pipeline", "rtm.training.runs"),
)
WHOLE = "*"
Import = tuple[str, str]  # module and name in it, or WHOLE

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_HINTS = {"annotation", "returns", "type_comment", "type_params", "kind", "ctx"}


@cache
def meaning(entries: tuple[str, ...]) -> dict[str, str]:
    """For each module that the entries reach, a hash of what they reach in it."""
    folders = [entry for entry in entries if "/" in entry]
    reached = _reached([entry for entry in entries if "/" not in entry])
    files = {str(file.relative_to(PACKAGE.parent)): file for folder in folders for file in _files(folder)}
    modules = {module: _hash(module, names) for module, names in sorted(reached.items())}
    return modules | {name: digest(file)[:16] for name, file in sorted(files.items())}


def source_files(entries: tuple[str, ...]) -> list[Path]:
    """The files that count, relative to the repository."""
    return [Path(name) if "/" in name else _path(name).relative_to(PACKAGE.parent) for name in meaning(entries)]


def _files(folder: str) -> list[Path]:
    return [path for path in (PACKAGE.parent / folder).rglob("*") if path.is_file()]


@dataclass
class _Module:
    """A module's top level by name."""

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)  # of rtm/ only
    always: list[ast.stmt] = field(default_factory=list)  # runs on import, whatever is asked for


def _path(module: str) -> Path:
    inside = PACKAGE.joinpath(*module.split(".")[1:])
    return inside / "__init__.py" if inside.is_dir() else inside.with_suffix(".py")


def _exists(module: str) -> bool:
    return module.split(".")[0] == PACKAGE.name and _path(module).is_file()


def _counts(module: str) -> bool:
    return not any(f"{module}.".startswith(f"{left_out}.") for left_out in UNCOUNTED)


@cache
def _module(name: str) -> _Module:
    found = _Module()
    tree = ast.parse(_path(name).read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            found.imports |= dict(_imported(statement, name))
        elif names := _defined(statement):
            for defined in names:
                found.definitions.setdefault(defined, []).append(statement)
        elif not (_is_docstring(statement) or _is_for_typing(statement)):
            found.always.append(statement)
    found.always += [node for nodes in found.definitions.values() for node in nodes if _registers(node, found)]
    return found


def _imported(statement: ast.Import | ast.ImportFrom, module: str) -> Iterator[tuple[str, Import]]:
    """The names that an import binds, as far as they come from rtm/."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if _exists(alias.name):
                yield alias.asname or alias.name, (alias.name, WHOLE)
        return
    parent = module.split(".")[: -statement.level or None] if statement.level else []
    if statement.level and _path(module).name == "__init__.py":
        parent = module.split(".")[: 1 - statement.level or None]
    source = ".".join([*parent, *(statement.module or "").split(".")]).strip(".")
    for alias in statement.names:
        bound = alias.asname or alias.name
        if _exists(f"{source}.{alias.name}"):
            yield bound, (f"{source}.{alias.name}", WHOLE)
        elif _exists(source):
            yield bound, (source, alias.name)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    names = [node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    return names if all(isinstance(target, ast.Name | ast.Tuple) for target in targets) else []


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_for_typing(statement: ast.stmt) -> bool:
    test = statement.test if isinstance(statement, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def _registers(node: ast.stmt, module: _Module) -> bool:
    """Whether a decorator of our own may put the definition where others find it."""
    names = [part for decorator in getattr(node, "decorator_list", []) for part in _walk(decorator)]
    known = module.definitions.keys() | module.imports.keys()
    return any(isinstance(name, ast.Name) and name.id in known for name in names)


def _reached(entries: list[str]) -> dict[str, set[str]]:
    reached: dict[str, set[str]] = {}
    todo: list[Import] = []
    for entry in entries:
        module, _, name = entry.partition(":")
        assert not name or name in _module(module).definitions, f"{module} defines no {name}"
        todo.append((module, name or WHOLE))
    while todo:
        module, name = todo.pop()
        if not _counts(module) or name in reached.get(module, ()):
            continue
        reached.setdefault(module, set()).add(name)
        todo += _uses(module, name)
    return reached


@cache
def _uses(name: str, wanted: str) -> tuple[Import, ...]:
    """What a definition of a module needs: names beside it and names from elsewhere in rtm/."""
    module = _module(name)
    if wanted in module.imports:
        return (module.imports[wanted],)
    if wanted == WHOLE:
        return (*((name, defined) for defined in module.definitions), *module.imports.values())
    found: list[Import] = []
    for node in (*module.definitions.get(wanted, ()), *module.always):
        for part in _walk(node):
            if isinstance(part, ast.Import | ast.ImportFrom):
                found += (source for _, source in _imported(part, name))
            elif isinstance(part, ast.Name) and part.id in module.imports:
                found.append(module.imports[part.id])
            elif isinstance(part, ast.Name) and part.id in module.definitions:
                found.append((name, part.id))
    return tuple(found)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a piece of code, type hints of functions apart."""
    yield node
    for key, value in ast.iter_fields(node):
        if key not in _HINTS or _is_field(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _walk(child)


def _is_field(node: ast.AST) -> bool:
    """An annotated assignment: in a class of data its hint is what it does."""
    return isinstance(node, ast.AnnAssign)


def _hash(name: str, names: set[str]) -> str:
    module = _module(name)
    texts = [_text(node) for node in module.always]
    texts += [_text(node) for wanted in sorted(names) for node in module.definitions.get(wanted, ())]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]


@cache
def _text(node: ast.stmt) -> str:
    return repr(_normal(node))


def _normal(node: object) -> object:
    """A tree of plain tuples, the same in every Python version: no positions, hints, docstrings or empty fields."""
    if isinstance(node, list):
        return [_normal(item) for item in node if not (isinstance(item, ast.stmt) and _is_docstring(item))]
    if not isinstance(node, ast.AST):
        return (type(node).__name__, repr(node))
    hints = set() if _is_field(node) else _HINTS
    fields = [(key, value) for key, value in ast.iter_fields(node) if key not in hints and value not in (None, [])]
    return (type(node).__name__, *((key, _normal(value)) for key, value in fields))
