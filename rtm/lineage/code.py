"""The code behind a result: one hash of the modules that a job imports, directly or through others.

A module counts as syntax: comments, docstrings and layout do not count. It counts more than it must (a whole module for
one function of it), so no function that a job calls can be missed; tests/lineage/test_traced.py proves it.
What params/ choose by name (a mapper, a method, an extractor) is named by the stage. A stage's own `make` counts too.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from rtm.core.files import digest

PACKAGE = Path(__file__).parents[1]
# They find, call and show jobs; no number comes from them. Values of params/ are in the receipt themselves.
LEFT_OUT = (
    "rtm.cli",
    "rtm.config",
    "rtm.core.advice",
    "rtm.core.errors",
    "rtm.core.files",
    "rtm.core.progress",
    "rtm.core.readers",
    "rtm.core.sealed",
    "rtm.data.download",
    "rtm.data.fetch",
    "rtm.data.parts",
    "rtm.lineage",
    "rtm.methods.registry",
    "rtm.metrics.extractors",
    "rtm.models.registry",
    "rtm.pipeline",
    "rtm.reports.terminal",
    "rtm.stages",
    "rtm.training.cluster",
    "rtm.training.devices",
    "rtm.training.folder",
    "rtm.training.launch",
    "rtm.training.loggers",
)


class Code:
    """The modules of a package by name, and its other files by path."""

    def __init__(
        self, modules: Mapping[str, str], files: Mapping[str, str] | None = None, left_out: Sequence[str] = LEFT_OUT
    ) -> None:
        self.modules = dict(modules)  # name: text
        self.files = dict(files or {})  # path: digest
        self.left_out = tuple(left_out)
        self._reached: dict[tuple[str, ...], dict[str, str]] = {}
        self._imported: dict[str, list[str]] = {}

    @classmethod
    def of(cls, package: Path) -> "Code":
        """A package as it is on disk."""
        paths = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        modules = {}
        files = {}
        for path in paths:
            name = path.relative_to(package.parent)
            if path.suffix == ".py":
                modules[module_name(name)] = path.read_text("utf-8")
            else:
                files[name.as_posix()] = digest(path)
        return cls(modules, files)

    def root(self, entries: Sequence[str]) -> str:
        """One hash for all code that the entries reach: modules, classes as "module:Class", folders as "rtm/page/web";
        the method of a stage, "module:Class.method", counts alone, without its module's imports."""
        reached = self.reached(entries)
        return short_hash(*(f"{name} {reached[name]}" for name in sorted(reached)))

    def reached(self, entries: Sequence[str]) -> dict[str, str]:
        """The hashes of the modules and files that the entries reach, by name."""
        key = tuple(sorted(set(entries)))
        if key not in self._reached:
            self._reached[key] = dict(self._reach(key))
        return self._reached[key]

    def _reach(self, entries: Iterable[str]) -> Iterator[tuple[str, str]]:
        modules = []
        for entry in entries:
            module, _, attribute = entry.partition(":")
            if "/" in entry:
                yield from ((name, value) for name, value in self.files.items() if name.startswith(f"{entry}/"))
            elif "." in attribute:
                yield entry, method_syntax(self.modules[module], attribute)
            else:
                modules.append(module)
        for module in self._closure(modules):
            yield module, syntax(self.modules[module])

    def _closure(self, modules: list[str]) -> set[str]:
        reached: set[str] = set()
        waiting = list(modules)
        while waiting:
            module = waiting.pop()
            if module not in self.modules:
                raise KeyError(f"there is no module {module}")
            if module not in reached and not self.is_left_out(module):
                reached.add(module)
                waiting += self._imports(module)
        return reached

    def _imports(self, module: str) -> list[str]:
        if module not in self._imported:
            names = imports(self.modules[module])
            self._imported[module] = [name for each in names for name in self._module_of(each)]
        return self._imported[module]

    def _module_of(self, name: str) -> list[str]:
        """The module that an imported name is, or is in. Packages only pass names on, so those above do not count."""
        if name in self.modules:
            return [name]
        package = name.rpartition(".")[0]
        return [package] if package in self.modules else []

    def is_left_out(self, module: str) -> bool:
        return any(f"{module}.".startswith(f"{name}.") for name in self.left_out)


@cache
def present() -> Code:
    """The package as this process found it first, because later changes on disk do not change the running code."""
    return Code.of(PACKAGE)


def module_name(path: Path) -> str:
    """rtm/models/layers.py is rtm.models.layers; the file of a package has its name."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports(text: str) -> list[str]:
    """The full names that a module imports anywhere, but not those for type checkers."""
    names = []
    waiting: list[ast.AST] = [ast.parse(text)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
        else:
            waiting += ast.iter_child_nodes(node)
    return names


@cache
def syntax(text: str) -> str:
    """A hash of a module's syntax."""
    return short_hash("".join(_written(ast.parse(text))))


@cache
def method_syntax(text: str, name: str) -> str:
    """A hash of a method, given as Class.method."""
    owner, _, method = name.partition(".")
    tree = ast.parse(text)
    bodies = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner]
    found = [node for body in bodies for node in body if isinstance(node, ast.FunctionDef) and node.name == method]
    return short_hash(*(part for node in found for part in _written(node)))


def short_hash(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _written(value: object) -> Iterator[str]:
    """Syntax as text that is equal in every version of Python: newer ones have more fields, which are empty."""
    if isinstance(value, ast.AST):
        yield f"{type(value).__name__}("
        for key, below in ast.iter_fields(value):
            if below is not None and below != [] and key not in ("ctx", "kind", "type_comment"):
                yield f"{key}="
                yield from _written(below)
        yield ")"
    elif isinstance(value, list):
        for item in value:
            if not _is_docstring(item):
                yield from _written(item)
                yield ","
    else:
        yield repr(value)


def _is_docstring(statement: object) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
