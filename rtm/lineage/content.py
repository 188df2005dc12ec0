"""The content of a definition as text, without positions, comments, docstrings, hints and names that do not count."""

import ast
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from rtm.lineage.scopes import COMPREHENSIONS, KEPT, NAMING, SCOPED, Import, Scope, binding, imported, inner, scope_of

HINTS = {"annotation", "returns", "type_comment", "type_params", "kind", "ctx"}
SEES_LOCALS = {"locals", "vars", "dir", "eval", "exec"}


class Ref(NamedTuple):
    """A reference that is resolved later, when the other modules are known."""

    name: str | Import  # a name at the top of the module, or the import that binds it in a function
    chain: tuple[str, ...]  # attributes


Piece = tuple[str | Ref, ...]


def content(nodes: Sequence[ast.AST]) -> Piece:
    inside = [part for node in nodes for part in ast.walk(node)]
    sees = any(isinstance(part, ast.Name) and part.id in SEES_LOCALS for part in inside)
    rebound = {name for part in inside if isinstance(part, ast.Nonlocal) for name in part.names}
    writer = _Writer(nodes, None if sees else frozenset(rebound))
    writer.write(list(nodes), None)
    joined = groupby(writer.parts, key=lambda part: isinstance(part, str))
    return tuple(part for is_text, parts in joined for part in (["".join(map(str, parts))] if is_text else parts))


class _Writer:
    """Write syntax as text that is the same in every version of Python. References are not resolved."""

    def __init__(self, tops: Sequence[ast.AST], rebound: frozenset[str] | None) -> None:
        self.tops = tops
        self.rebound = rebound  # names that inner functions also bind; None if code may read any local name
        self.parts: list[str | Ref] = []
        self.numbers: dict[tuple[Scope, str], int] = {}

    def write(self, value: object, scope: Scope | None) -> None:
        if isinstance(value, list):
            self.parts.append("[")
            for item in value:
                before = len(self.parts)
                if not is_docstring(item):
                    self.write(item, scope)
                if len(self.parts) > before:
                    self.parts.append(",")
            self.parts.append("]")
        elif isinstance(value, ast.AST):
            self.node(value, scope)
        else:
            self.parts.append(repr(value))

    def node(self, node: ast.AST, scope: Scope | None) -> None:
        if isinstance(node, ast.Name | ast.Attribute):
            self.chain(node, scope)
        elif isinstance(node, SCOPED):
            self.fields(node, scope, body=inner(node, scope))
        elif isinstance(node, COMPREHENSIONS):
            self.comprehension(node, scope)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self.bind(node, scope)
        elif isinstance(node, ast.AnnAssign) and not (scope and scope.is_class):
            if node.value:  # hints have an effect only in classes, for example dataclasses
                self.fields(ast.Assign([node.target], node.value), scope)
        elif not isinstance(node, ast.Global | ast.Nonlocal):  # the form of each name already shows it
            self.fields(node, scope)

    def fields(self, node: ast.AST, scope: Scope | None, **scopes: Scope) -> None:
        hints = set() if isinstance(node, ast.AnnAssign) else HINTS
        self.parts.append(f"{type(node).__name__}(")
        for key, value in ast.iter_fields(node):
            if key in hints or key == "ctx" or value is None or value == []:
                continue
            self.parts.append(f"{key}=")
            if key == NAMING.get(type(node)):
                self.name(value, scope, stored=True)
            elif key == "name" and any(node is top for top in self.tops):
                self.parts.append("itself")
            else:
                self.write(value, scopes.get(key, scope))
            self.parts.append(";")
        self.parts.append(")")

    def comprehension(self, node: ast.AST, scope: Scope | None) -> None:
        """Write a comprehension. Its first iterable is evaluated in the scope around it."""
        generators: list[ast.comprehension] = getattr(node, "generators")  # noqa: B009
        within = scope_of([each.target for each in generators], scope)
        self.parts.append(f"{type(node).__name__}(")
        self.write(generators[0].iter, scope)
        for place, each in enumerate(generators):
            rest = [each.target, *([each.iter] if place else []), *each.ifs]
            self.parts.append(f"for{each.is_async}")
            self.write(rest, within)
        self.write([value for key, value in ast.iter_fields(node) if key != "generators"], within)
        self.parts.append(")")

    def bind(self, node: ast.Import | ast.ImportFrom, scope: Scope | None) -> None:
        """Write an import, but only if its name may also have another value."""
        for name, target in imported(node):
            if not (scope and scope.bound.get(name) == target and self.is_only(name)):
                self.parts.append("bind(")
                self.name(name, scope, stored=True)
                self.parts += ["=", Ref(target, ()), ")"]

    def is_only(self, name: str) -> bool:
        """Whether only the function that imports a name binds it."""
        return self.rebound is not None and name not in self.rebound

    def chain(self, node: ast.expr, scope: Scope | None) -> None:
        """Write a name with attributes, which may lead through modules."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name):
            self.name(node.id, scope, tuple(attributes), stored=isinstance(node.ctx, ast.Store))
        else:
            self.write(node, scope)
            self.parts.append(dotted(attributes))

    def name(
        self,
        name: str,
        scope: Scope | None,
        chain: tuple[str, ...] = (),
        *,
        stored: bool = False,
        inside: bool = True,
    ) -> None:
        found = binding(name, scope, inside)
        kind = found.bound[name] if found else None
        is_import = isinstance(kind, Import) and self.is_only(name)
        if found is None or is_import:
            self.parts.append(Ref(kind if isinstance(kind, Import) else name, chain))
            return
        if found.is_class:
            self.parts.append(f"<field {name}")
            if not stored:  # before it is bound, Python looks it up outside
                self.name(name, found.above, inside=False)
            self.parts.append(">")
        elif kind == KEPT or self.rebound is None:
            self.parts.append(f"<kept {name}>")
        else:
            self.parts.append(f"<local {self.numbers.setdefault((found, name), len(self.numbers))}>")
        self.parts.append(dotted(chain))


def dotted(attributes: Iterable[str]) -> str:
    return "".join(f".{attribute}" for attribute in attributes)


def is_docstring(statement: object) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
