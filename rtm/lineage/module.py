"""One module, judged only by its text: the definitions, imports and other statements of its top level."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from rtm.lineage.content import Piece, Ref, content, is_docstring
from rtm.lineage.scopes import FUNCTIONS, Import, imported

ON_IMPORT = "(on import)"


@dataclass
class Module:
    """A module's top level by name."""

    statements: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Import] = field(default_factory=dict)
    always: list[ast.stmt] = field(default_factory=list)  # runs on import and binds no name
    pieces: dict[str, Piece] = field(default_factory=dict)  # a cache

    def piece(self, name: str) -> Piece:
        """The content of a definition, or of all statements that run on import."""
        if name not in self.pieces:
            self.pieces[name] = content(self.always if name == ON_IMPORT else self.statements[name])
        return self.pieces[name]

    def decorated(self) -> Iterator[tuple[str, list[Ref]]]:
        """The definitions with decorators, and the references of the decorators."""
        for name, statements in self.statements.items():
            found = [decorator for each in statements for decorator in getattr(each, "decorator_list", [])]
            if found:
                yield name, [part for part in content(found) if isinstance(part, Ref)]


@cache
def parse(text: str) -> Module:
    module = Module()
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and "*" not in (bound := dict(imported(statement))):
            module.imports |= bound
        elif names := _defined(statement):
            for name in names:
                module.statements.setdefault(name, []).append(statement)
        elif not (is_docstring(statement) or _is_for_typing(statement)):
            module.always.append(statement)
    return module


def _defined(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top of a module defines; none if it also does something else."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return [statement.name]
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(statement)):
        return []
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    names = [part.id for part in parts if isinstance(part, ast.Name)]
    return names if len(names) == len(parts) else []


def _is_for_typing(statement: ast.stmt) -> bool:
    test = statement.test if isinstance(statement, ast.If) else None
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"
