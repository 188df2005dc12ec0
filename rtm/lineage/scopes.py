"""The names in a function or class: which scope binds them, and whether they count."""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPED = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
NAMING = {ast.ExceptHandler: "name", ast.MatchAs: "name", ast.MatchStar: "name", ast.MatchMapping: "rest"}
KEPT, FREE = "kept", "free"  # parameters and inner functions keep their names, other local variables do not


class Import(NamedTuple):
    level: int  # number of leading dots
    module: str
    names: tuple[str, ...]  # below the module


Binding = str | Import


def imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Import]]:
    """The names that an import binds."""
    for alias in statement.names:
        if isinstance(statement, ast.ImportFrom):
            below = () if alias.name == "*" else (alias.name,)
            yield alias.asname or alias.name, Import(statement.level, statement.module or "", below)
        elif alias.asname:
            yield alias.asname, Import(0, alias.name, ())
        else:
            yield alias.name.split(".")[0], Import(0, alias.name.split(".")[0], ())


@dataclass(eq=False)
class Scope:
    above: "Scope | None"
    bound: Mapping[str, Binding]
    elsewhere: frozenset[str] = frozenset()  # declared global
    is_class: bool = False


def binding(name: str, scope: Scope | None, inside: bool = True) -> Scope | None:
    """The scope that binds a name; None at the top of a module. Only a class's own statements see its names."""
    while scope:
        if inside or not scope.is_class:
            if name in scope.elsewhere:
                return None
            if name in scope.bound:
                return scope
        scope, inside = scope.above, False
    return None


def scope_of(nodes: Sequence[ast.AST], above: Scope | None, kept: Iterable[str] = (), is_class: bool = False) -> Scope:
    own = list(_own(nodes))
    declared = [node for node in own if isinstance(node, ast.Global | ast.Nonlocal)]
    names = {name for node in declared for name in node.names}
    bound: dict[str, Binding] = dict.fromkeys(kept, KEPT)
    for name, kind in _bindings(own):
        if name not in names:
            known = bound.get(name)
            bound[name] = kind if known is None else KEPT if KEPT in (known, kind) else FREE
    elsewhere = frozenset(name for node in declared if isinstance(node, ast.Global) for name in node.names)
    return Scope(above, dict.fromkeys(bound, KEPT) if is_class else bound, elsewhere, is_class)


def inner(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef, above: Scope | None) -> Scope:
    """The scope of the body of a function or class."""
    if isinstance(node, ast.ClassDef):
        return scope_of(node.body, above, is_class=True)
    return scope_of([node.body] if isinstance(node, ast.Lambda) else node.body, above, _parameters(node.args))


def _own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a scope, without the nodes of inner scopes. Parts of inner scopes that are evaluated outside (such
    as default values) belong to this scope."""
    todo = list(nodes)
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, (*FUNCTIONS, ast.Lambda)):
            todo += [*getattr(node, "decorator_list", []), *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.ClassDef):
            todo += [*node.decorator_list, *node.bases, *node.keywords]
        elif isinstance(node, COMPREHENSIONS):
            todo += _named(node)
        else:
            todo += ast.iter_child_nodes(node)


def _named(comprehension: ast.AST) -> Iterator[ast.AST]:
    """The names that `:=` binds around a comprehension; a lambda in it keeps its own."""
    for part in ast.iter_child_nodes(comprehension):
        if isinstance(part, ast.NamedExpr):
            yield part.target
        yield from _named(part.args if isinstance(part, ast.Lambda) else part)


def _bindings(own: Iterable[ast.AST]) -> Iterator[tuple[str, Binding]]:
    for node in own:
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                yield node.id, FREE
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name, KEPT
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from imported(node)
        elif name := getattr(node, NAMING.get(type(node), ""), None):
            yield name, FREE


def _parameters(arguments: ast.arguments) -> list[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [each.arg for each in every if each]
