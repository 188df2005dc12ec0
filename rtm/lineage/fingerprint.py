"""Code by its content: one hash for all that entries reach, wherever it is kept and whatever it is called.

A definition is a function, a class or an assignment at the top of a module. Its own content is its syntax without
positions, comments, docstrings and hints of arguments. Names that only point somewhere are numbers there: the
definition's own name, local variables, and references to other definitions of the package, which are its `uses`. The
id of a definition hashes its own content and the ids of its uses, so files may move and names may change.

Entries are "module", "module:name", or a folder with a slash whose files (templates, say) count by their bytes. The
entry "!module:name" says that the parameters do not select this definition: its content does not count.
"""

import ast
import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rtm.core.files import digest

PACKAGE = Path(__file__).parents[__name__.count(".") - 1]
LEFT_OUT = (
    "rtm.cli",  # how a verb is called
    "rtm.config",  # the values of params/ are parts of a receipt themselves
    "rtm.core.errors",  # what an error says
    "rtm.core.files",  # how files are read and written
    "rtm.core.layout",  # where files are
    "rtm.data.download",  # where the bytes of a source come from; checksums say which they are
    "rtm.data.fetch",  # which source is used: the same
    "rtm.lineage",  # what runs again
    "rtm.methods.registry",  # which class trains: a job names it as an entry
    "rtm.models.registry",  # which mapper and generator are built: entries too
    "rtm.pipeline",  # what depends on what: parts of a receipt
    "rtm.core.progress",  # what is shown on the way
    "rtm.reports.terminal",  # what a verb prints
    "rtm.training.launch",  # how processes start and end
)

K = TypeVar("K", bound=Hashable)
Key = tuple[str, str]  # module and name in it, or folder and file in it
WHOLE, ON_IMPORT = "*", "(on import)"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_HINTS = {"annotation", "returns", "type_comment", "type_params", "kind", "ctx"}
_NAMING = {ast.ExceptHandler: "name", ast.MatchAs: "name", ast.MatchStar: "name", ast.MatchMapping: "rest"}
_SEES_LOCALS = {"locals", "vars", "dir", "eval", "exec"}


def short_hash(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


# graphs of definitions


@dataclass(frozen=True)
class Definition:
    name: str  # for people alone: "module:name", several with commas where they are the same but for their names
    own: str  # a hash of its own content
    uses: tuple[str, ...]  # ids, in the order of first appearance


class Graph(dict[str, Definition]):
    """Definitions by id, with those that a job enters by."""

    def __init__(self, definitions: Mapping[str, Definition], entries: Iterable[str]) -> None:
        super().__init__(definitions)
        self.entries = tuple(sorted(set(entries)))

    @property
    def root(self) -> str:
        return short_hash(*self.entries)

    def below(self, key: str) -> set[str]:
        """What a definition reaches."""
        return _reached(self[key].uses, lambda each: self[each].uses)

    def text(self) -> str:
        """JSON with a line for each definition."""
        lines = [f"{json.dumps(key)}: {json.dumps(vars(self[key]))}" for key in sorted(self)]
        return f'{{"entries": {json.dumps(self.entries)},\n"definitions": {{\n' + ",\n".join(lines) + "\n}}\n"

    @classmethod
    def of(cls, text: str) -> "Graph":
        """What `text` wrote; a KeyError, TypeError or ValueError if it is something else."""
        read = json.loads(text)
        found = {key: definition(value) for key, value in read["definitions"].items()}
        return cls(found, map(str, read["entries"]))

    def follows(self) -> bool:
        """Whether every id follows from the content behind it."""
        ids: dict[str, str] = {}
        try:
            identify(self, lambda key: (self[key].own, self[key].uses), ids)
        except KeyError:
            return False
        return ids.keys() == self.keys() >= set(self.entries) and all(key == value for key, value in ids.items())


def definition(value: Mapping[str, Any]) -> Definition:
    return Definition(str(value["name"]), str(value["own"]), tuple(map(str, value["uses"])))


def identify(starts: Iterable[K], node: Callable[[K], tuple[str, Sequence[K]]], ids: dict[K, str]) -> None:
    """Add the ids of everything that can be reached, from `node`: own content and uses."""
    for component in _components(starts, lambda key: node(key)[1], ids):
        nodes = {key: node(key) for key in component}
        (first, (own, uses)), *others = nodes.items()
        if others or first in uses:
            ids.update(_refined(nodes, ids))
        else:
            ids[first] = short_hash(own, *(ids[use] for use in uses))


def _reached(starts: Iterable[K], uses: Callable[[K], Sequence[K]]) -> set[K]:
    todo = list(starts)
    seen = set(todo)
    while todo:
        new = [use for use in uses(todo.pop()) if use not in seen]
        seen.update(new)
        todo += new
    return seen


def _refined(nodes: Mapping[K, tuple[str, Sequence[K]]], ids: Mapping[K, str]) -> dict[K, str]:
    """Ids of definitions that use each other: colours, refined by those of their uses until no two more differ."""
    colours = {key: short_hash(own, *(ids.get(use, "") for use in uses)) for key, (own, uses) in nodes.items()}
    while True:
        finer = {
            key: short_hash(colours[key], *(colours.get(use) or ids[use] for use in uses))
            for key, (_, uses) in nodes.items()
        }
        if len(set(finer.values())) == len(set(colours.values())):
            break
        colours = finer
    together = short_hash(*sorted(set(finer.values())))
    return {key: short_hash(colour, together) for key, colour in finer.items()}


def _components(starts: Iterable[K], uses: Callable[[K], Sequence[K]], done: Mapping[K, Any]) -> Iterator[list[K]]:
    """Definitions that use each other, together (Tarjan); who takes one puts it into `done` before the next."""
    order: dict[K, int] = {}
    low: dict[K, int] = {}
    stack: list[K] = []
    work: list[tuple[K, Iterator[K]]] = []

    def enter(key: K) -> None:
        order[key] = low[key] = len(order)
        stack.append(key)
        work.append((key, iter(uses(key))))

    for start in starts:
        if start not in done:
            enter(start)
        while work:
            key, rest = work[-1]
            after = next((use for use in rest if use not in done), None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == order[key]:
                    place = stack.index(key)
                    yield stack[place:]
                    del stack[place:]
            elif after in order:
                low[key] = min(low[key], order[after])
            else:
                enter(after)


# one module, by its text alone


class Import(NamedTuple):
    level: int  # dots
    module: str
    names: tuple[str, ...]  # below the module


class Ref(NamedTuple):
    """A reference that is open until the other modules are known."""

    name: str | Import  # of the module's top, or what an import in a function binds
    chain: tuple[str, ...]  # attributes


Piece = tuple[str | Ref, ...]


@dataclass
class _Module:
    """A module's top level by name."""

    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)
    always: list[ast.stmt] = field(default_factory=list)  # runs on import and binds no name
    pieces: dict[str, Piece] = field(default_factory=dict)  # as far as somebody asked

    def piece(self, name: str) -> Piece:
        """The content of a definition, or of all that runs on import."""
        if name not in self.pieces:
            self.pieces[name] = _written(self.always if name == ON_IMPORT else self.statements[name])
        return self.pieces[name]

    def decorated(self) -> Iterator[tuple[str, list[Ref]]]:
        """The definitions with decorators, and what these refer to."""
        for name, statements in self.statements.items():
            found = [decorator for each in statements for decorator in getattr(each, "decorator_list", [])]
            if found:
                yield name, [part for part in _written(found) if isinstance(part, Ref)]


@cache
def _parsed(text: str) -> _Module:
    module = _Module()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and "*" not in (bound := dict(_imported(statement))):
            module.imports |= bound
        elif names := _defined(statement):
            for name in names:
                module.statements.setdefault(name, []).append(statement)
        elif not (_is_docstring(statement) or _is_for_typing(statement)):
            module.always.append(statement)
    return module


def _imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import]]:
    """The names that an import binds."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            below = () if alias.name == "*" else (alias.name,)
            yield alias.asname or alias.name, Import(statement.level, statement.module or "", below)
        elif alias.asname:
            yield alias.asname, Import(0, alias.name, ())
        else:
            yield alias.name.split(".")[0], Import(0, alias.name.split(".")[0], ())


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines; none if it does more than that."""
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return [statement.name]
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(statement)):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return names if len(names) == len(parts) else []


def _is_docstring(statement: object) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_for_typing(statement: ast.stmt) -> bool:
    test = statement.test if isinstance(statement, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


# names in functions and classes

_KEPT, _FREE = "kept", "free"  # parameters and inner functions keep their names, other local variables do not
Binding = str | Import


@dataclass(eq=False)
class _Scope:
    above: "_Scope | None"
    bound: Mapping[str, Binding]
    elsewhere: frozenset[str] = frozenset()  # declared global
    is_class: bool = False


def _found(name: str, scope: _Scope | None, inside: bool = True) -> _Scope | None:
    """The scope that binds a name, none at the top of a module; only a class's own statements see its names."""
    while scope:
        if inside or not scope.is_class:
            if name in scope.elsewhere:
                return None
            if name in scope.bound:
                return scope
        scope, inside = scope.above, False
    return None


def _scope(nodes: Sequence[ast.AST], above: _Scope | None, kept: Iterable[str] = (), is_class: bool = False) -> _Scope:
    own = list(_own(nodes))
    declared = [node for node in own if isinstance(node, ast.Global | ast.Nonlocal)]
    names = {name for node in declared for name in node.names}
    bound: dict[str, Binding] = dict.fromkeys(kept, _KEPT)
    for name, kind in _bindings(own):
        if name not in names:
            known = bound.get(name)
            bound[name] = kind if known is None else _KEPT if _KEPT in (known, kind) else _FREE
    elsewhere = frozenset(name for node in declared if isinstance(node, ast.Global) for name in node.names)
    return _Scope(above, dict.fromkeys(bound, _KEPT) if is_class else bound, elsewhere, is_class)


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope without those of scopes in it; what these evaluate outside belongs here."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, (*_FUNCTIONS, ast.Lambda)):
            todo += [*getattr(node, "decorator_list", []), *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.ClassDef):
            todo += [*node.decorator_list, *node.bases, *node.keywords]
        elif isinstance(node, _COMPREHENSIONS):
            todo += [part.target for part in ast.walk(node) if isinstance(part, ast.NamedExpr)]
        else:
            todo += ast.iter_child_nodes(node)


def _bindings(own: Iterable[ast.AST]) -> Iterator[tuple[str, Binding]]:
    for node in own:
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield node.id, _FREE
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield node.name, _KEPT
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)
        elif name := getattr(node, _NAMING.get(type(node), ""), None):
            yield name, _FREE


def _parameters(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [each.arg for each in every if each]


# the content of a definition


def _written(nodes: Sequence[ast.AST]) -> Piece:
    inside = [part for node in nodes for part in ast.walk(node)]
    sees = any(isinstance(part, ast.Name) and part.id in _SEES_LOCALS for part in inside)
    rebound = {name for part in inside if isinstance(part, ast.Nonlocal) for name in part.names}
    writer = _Writer(nodes, None if sees else frozenset(rebound))
    writer.write(list(nodes), None)
    joined = groupby(writer.parts, key=lambda part: isinstance(part, str))
    return tuple(part for is_text, parts in joined for part in (["".join(map(str, parts))] if is_text else parts))


class _Writer:
    """Writes syntax as text that is the same in every version of Python, with its references left open."""

    def __init__(self, tops: Sequence[ast.AST], rebound: frozenset[str] | None) -> None:
        self.tops = tops
        self.rebound = rebound  # names that inner functions bind as well; None where every local name may be read
        self.parts: list[str | Ref] = []
        self.numbers: dict[tuple[_Scope, str], int] = {}

    def write(self, value: object, scope: _Scope | None) -> None:
        if isinstance(value, list):
            self.parts.append("[")
            for item in value:
                before = len(self.parts)
                if not _is_docstring(item):
                    self.write(item, scope)
                if len(self.parts) > before:
                    self.parts.append(",")
            self.parts.append("]")
        elif isinstance(value, ast.AST):
            self.node(value, scope)
        else:
            self.parts.append(repr(value))

    def node(self, node: ast.AST, scope: _Scope | None) -> None:
        if isinstance(node, ast.Name | ast.Attribute):
            self.chain(node, scope)
        elif isinstance(node, _FUNCTIONS):
            self.fields(node, scope, body=_scope(node.body, scope, _parameters(node.args)))
        elif isinstance(node, ast.Lambda):
            self.fields(node, scope, body=_scope([node.body], scope, _parameters(node.args)))
        elif isinstance(node, ast.ClassDef):
            self.fields(node, scope, body=_scope(node.body, scope, is_class=True))
        elif isinstance(node, _COMPREHENSIONS):
            self.comprehension(node, scope)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.bind(node, scope)
        elif isinstance(node, ast.AnnAssign) and not (scope and scope.is_class):
            if node.value:  # in a class of data a hint is what it does; elsewhere it does nothing
                self.fields(ast.Assign([node.target], node.value), scope)
        elif not isinstance(node, ast.Global | ast.Nonlocal):  # which every name that they are about says already
            self.fields(node, scope)

    def fields(self, node: ast.AST, scope: _Scope | None, **scopes: _Scope) -> None:
        hints = set() if isinstance(node, ast.AnnAssign) else _HINTS
        self.parts.append(f"{type(node).__name__}(")
        for key, value in ast.iter_fields(node):
            if key in hints or key == "ctx" or value is None or value == []:
                continue
            self.parts.append(f"{key}=")
            if key == _NAMING.get(type(node)):
                self.name(value, scope, stored=True)
            elif key == "name" and any(node is top for top in self.tops):
                self.parts.append("itself")
            else:
                self.write(value, scopes.get(key, scope))
            self.parts.append(";")
        self.parts.append(")")

    def comprehension(self, node: ast.AST, scope: _Scope | None) -> None:
        """Its first iterable is evaluated outside of it."""
        generators: list[ast.comprehension] = getattr(node, "generators")  # noqa: B009
        inner = _scope([each.target for each in generators], scope)
        self.parts.append(f"{type(node).__name__}(")
        self.write(generators[0].iter, scope)
        for place, each in enumerate(generators):
            rest = [each.target, *([each.iter] if place else []), *each.ifs]
            self.parts.append(f"for{each.is_async}")
            self.write(rest, inner)
        self.write([value for key, value in ast.iter_fields(node) if key != "generators"], inner)
        self.parts.append(")")

    def bind(self, node: ast.Import | ast.ImportFrom, scope: _Scope | None) -> None:
        """An import says nothing itself where a name can only be what it binds."""
        for name, target in _imported(node):
            if not (scope and scope.bound.get(name) == target and self.is_only(name)):
                self.parts.append("bind(")
                self.name(name, scope, stored=True)
                self.parts += ["=", Ref(target, ()), ")"]

    def is_only(self, name: str) -> bool:
        """Whether nothing else than the function that imports a name can bind it."""
        return self.rebound is not None and name not in self.rebound

    def chain(self, node: ast.expr, scope: _Scope | None) -> None:
        """A name with attributes, which may lead through modules."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            self.name(node.id, scope, tuple(attributes), stored=isinstance(node.ctx, ast.Store))
        else:
            self.write(node, scope)
            self.parts.append(_dotted(attributes))

    def name(
        self,
        name: str,
        scope: _Scope | None,
        chain: tuple[str, ...] = (),
        *,
        stored: bool = False,
        inside: bool = True,
    ) -> None:
        found = _found(name, scope, inside)
        kind = found.bound[name] if found else None
        is_import = isinstance(kind, Import) and self.is_only(name)
        if found is None or is_import:
            self.parts.append(Ref(kind if isinstance(kind, Import) else name, chain))
            return
        if found.is_class:
            self.parts.append(f"<field {name}")
            if not stored:  # one that is not bound yet is looked up outside
                self.name(name, found.above, inside=False)
            self.parts.append(">")
        elif kind == _KEPT or self.rebound is None:
            self.parts.append(f"<kept {name}>")
        else:
            self.parts.append(f"<local {self.numbers.setdefault((found, name), len(self.numbers))}>")
        self.parts.append(_dotted(chain))


def _dotted(attributes: Iterable[str]) -> str:
    return "".join(f".{attribute}" for attribute in attributes)


# all modules together


class Code:
    """The modules of packages by name, and other files by path; nothing is parsed before it is reached."""

    def __init__(
        self, sources: Mapping[str, str], files: Mapping[str, str] | None = None, left_out: Sequence[str] = LEFT_OUT
    ) -> None:
        self.sources, self.files, self.left_out = dict(sources), dict(files or {}), tuple(left_out)
        self._tops = {name.split(".")[0] for name in sources}
        self._packages = {
            ".".join(parts[:end]) for name in sources for parts in [name.split(".")] for end in range(len(parts))
        }
        self._nodes: dict[Key, tuple[str, tuple[Key, ...]]] = {}
        self._ids: dict[Key, str] = {}
        self._registered: dict[str, list[str]] = {}
        self._unselected: frozenset[Key] = frozenset()
        self._without: dict[frozenset[str], Code] = {}

    @classmethod
    def of(cls, package: Path) -> "Code":
        """A package as it is on disk; the digests of its other files stand for them."""
        paths = sorted(path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        named = {path: path.relative_to(package.parent) for path in paths}
        sources = {_module_name(name): path.read_text() for path, name in named.items() if name.suffix == ".py"}
        return cls(sources, {str(name): digest(path) for path, name in named.items() if name.suffix != ".py"})

    def root(self, entries: Sequence[str]) -> str:
        """One hash for all entries, in whatever order."""
        if selected := self._selected(entries):
            return selected.root(_plain(entries))
        return short_hash(*sorted({self._id(key) for key in self._entered(entries)}))

    def graph(self, entries: Sequence[str]) -> Graph:
        """What the entries reach."""
        if selected := self._selected(entries):
            return selected.graph(_plain(entries))
        starts = self._entered(entries)
        keys: dict[str, list[Key]] = {}
        for key in sorted(self.keys(starts)):
            keys.setdefault(self._ids[key], []).append(key)
        return Graph({name: self._definition(same) for name, same in keys.items()}, map(self._id, starts))

    def reached(self, entries: Sequence[str]) -> list[str]:
        """The modules and files that hold what the entries reach."""
        if selected := self._selected(entries):
            return selected.reached(_plain(entries))
        return sorted(
            {f"{place}/{name}" if "/" in place else place for place, name in self.keys(self._entered(entries))}
        )

    def definitions(self, entries: Sequence[str]) -> set[Key]:
        """What the entries reach, by module and name."""
        selected = self._selected(entries) or self
        return selected.keys(selected._entered(_plain(entries)))

    def keys(self, starts: Sequence[Key]) -> set[Key]:
        """Everything that can be reached."""
        identify(starts, self._node, self._ids)
        return _reached(starts, lambda key: self._node(key)[1])

    def _selected(self, entries: Iterable[str]) -> "Code | None":
        """The same code without what the parameters do not select; None if the entries leave nothing out."""
        names = frozenset(entry[1:] for entry in entries if entry.startswith("!"))
        if names and names not in self._without:
            code = Code(self.sources, self.files, self.left_out)
            code._unselected = frozenset(key for name in names for key in self._entry(name))
            self._without[names] = code
        return self._without.get(names)

    def is_package(self, module: str) -> bool:
        return module in self._packages

    def _entered(self, entries: Iterable[str]) -> list[Key]:
        return [key for entry in entries for key in self._entry(entry)]

    def _entry(self, entry: str) -> list[Key]:
        if "/" in entry:
            folder = entry.rstrip("/")
            return [(folder, name.removeprefix(f"{folder}/")) for name in self.files if name.startswith(f"{folder}/")]
        module, _, name = entry.partition(":")
        key, _ = self._attribute(module, (name,)) if name else (None, "")
        if name and (key is None or key[1] == ON_IMPORT) and not self._is_left_out(module):
            raise KeyError(f"{module} defines no {name}")
        return [key] if key else [] if name else list(self._all(module).values())

    def _all(self, module: str) -> dict[str, Key]:
        """The definitions of a module by name, imported ones among them."""
        if self._is_left_out(module):
            return {}
        parsed, always = self._module(module), {ON_IMPORT: (module, ON_IMPORT)} if self._runs(module) else {}
        linked = {name: self._find(module, Ref(name, ())) for name in parsed.imports}
        imported = {name: key for name, (key, rest) in linked.items() if key and key[1] != WHOLE and not rest}
        return {**imported, **{name: (module, name) for name in parsed.statements}, **always}

    def _id(self, key: Key) -> str:
        if key not in self._ids:
            identify([key], self._node, self._ids)
        return self._ids[key]

    def _definition(self, same: Sequence[Key]) -> Definition:
        own, uses = self._node(same[0])
        names = [("/" if "/" in place else ":").join((place, name)) for place, name in same]
        return Definition(", ".join(names), own, tuple(self._ids[use] for use in uses))

    def _module(self, module: str) -> _Module:
        return _parsed(self.sources.get(module, ""))

    def _node(self, key: Key) -> tuple[str, tuple[Key, ...]]:
        """Own content and uses."""
        if key not in self._nodes:
            self._nodes[key] = self._file(key) if "/" in key[0] else self._linked(key)
        return self._nodes[key]

    def _file(self, key: Key) -> tuple[str, tuple[Key, ...]]:
        return short_hash("file", key[1], self.files["/".join(key)]), ()

    def _linked(self, key: Key) -> tuple[str, tuple[Key, ...]]:
        module, name = key
        uses: dict[Key, int] = {}
        texts = [
            part if isinstance(part, str) else self._reference(key, *self._find(module, part), uses)
            for part in self._parts(module, name)
        ]
        if self._runs(module) and name != ON_IMPORT:
            uses.setdefault((module, ON_IMPORT), len(uses))
        return short_hash("".join(texts)), tuple(uses)

    def _parts(self, module: str, name: str) -> Piece:
        parsed = self._module(module)
        if name == WHOLE:  # who gets a module may ask for its names
            named = sorted(self._all(module).keys() - {ON_IMPORT})
            return ("module", *(part for each in named for part in (each, Ref(each, ()))))
        if name == ON_IMPORT:
            return (*parsed.piece(name), *(Ref(each, ()) for each in self._registers(module)))
        return parsed.piece(name)

    def _reference(self, own: Key, key: Key | None, text: str, uses: dict[Key, int]) -> str:
        if key in self._unselected:
            return f"<not selected>{text}"
        if key is None:
            return f"<{text}>"
        return f"<itself>{text}" if key == own else f"<{uses.setdefault(key, len(uses))}>{text}"

    def _runs(self, module: str) -> bool:
        return bool(self._module(module).always or self._registers(module))

    def _registers(self, module: str) -> list[str]:
        """Definitions that a decorator of our own may put where others find them."""
        if module not in self._registered:
            self._registered[module] = [
                name
                for name, refs in self._module(module).decorated()
                if any(self._is_ours(module, ref) for ref in refs)
            ]
        return self._registered[module]

    def _is_ours(self, module: str, ref: Ref) -> bool:
        key, text = self._find(module, ref)
        return key is not None or text.startswith("outside the fingerprint")

    # where a reference leads: a definition, or a text that says enough

    def _find(self, module: str, ref: Ref) -> tuple[Key | None, str]:
        parsed = self._module(module)
        if isinstance(ref.name, Import):
            return self._imported(module, ref.name, ref.chain)
        if ref.name in parsed.statements:
            return (module, ref.name), _dotted(ref.chain)
        if ref.name in parsed.imports:
            return self._imported(module, parsed.imports[ref.name], ref.chain)
        return None, f"global {ref.name}{_dotted(ref.chain)}"

    def _imported(
        self, module: str, target: Import, chain: tuple[str, ...], seen: frozenset[Key] = frozenset()
    ) -> tuple[Key | None, str]:
        parts = module.split(".") if target.level else []
        up = target.level - self.is_package(module)
        source = ".".join([*parts[: len(parts) - up], *([target.module] if target.module else [])])
        names = (*target.names, *chain)
        if source.split(".")[0] in self._tops:
            return self._attribute(source, names, seen)
        return None, f"foreign {source}{_dotted(names)}"

    def _attribute(
        self, module: str, names: tuple[str, ...], seen: frozenset[Key] = frozenset()
    ) -> tuple[Key | None, str]:
        """What a module's attribute is, through other modules if need be."""
        if self._is_left_out(module):
            while names and self._is_module(f"{module}.{names[0]}"):
                module, names = f"{module}.{names[0]}", names[1:]
            return None, f"outside the fingerprint {_dotted(names)}"
        if not names:
            return (module, WHOLE), ""
        (first, *rest), parsed = names, self._module(module)
        if first in parsed.statements:
            return (module, first), _dotted(rest)
        if first in parsed.imports and (module, first) not in seen:
            return self._imported(module, parsed.imports[first], tuple(rest), seen | {(module, first)})
        if self._is_module(f"{module}.{first}"):
            return self._attribute(f"{module}.{first}", tuple(rest), seen)
        if "__getattr__" in parsed.statements:
            return (module, "__getattr__"), _dotted(names)
        return (module, ON_IMPORT) if self._runs(module) else None, f"attribute {_dotted(names)}"

    def _is_module(self, name: str) -> bool:
        return name in self.sources or name in self._packages

    def _is_left_out(self, module: str) -> bool:
        return any(module == name or module.startswith(f"{name}.") for name in self.left_out)


def _plain(entries: Iterable[str]) -> list[str]:
    return [entry for entry in entries if not entry.startswith("!")]


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# the package on disk


@cache
def present() -> Code:
    """The package as this process found it first: code that changes while it runs is not what runs."""
    return Code.of(PACKAGE)


def source_files(entries: Sequence[str]) -> list[Path]:
    """The files that count, relative to the repository."""
    return [Path(name) if "/" in name else _source(name) for name in present().reached(entries)]


def _source(module: str) -> Path:
    path = Path(*module.split("."))
    return path / "__init__.py" if present().is_package(module) else path.with_suffix(".py")
