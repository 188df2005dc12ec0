"""The package with one changed definition; only hashes that the change can affect are computed again."""

import ast
from collections import defaultdict
from collections.abc import Iterable

from rtm.lineage.definitions import reached
from rtm.lineage.fingerprint import Code, Key
from rtm.lineage.module import ON_IMPORT, Module, parse


class Changed(Code):
    """A `Code` with one changed module. The module is not cached elsewhere."""

    def __init__(self, code: Code, name: str, text: str, module: Module) -> None:
        vars(self).update(vars(code))  # also the names of modules, which are slow to find
        self.sources, self._without, self._other = {**code.sources, name: text}, {}, {name: module}

    def _module(self, module: str) -> Module:
        return self._other.get(module) or super()._module(module)


class Variants:
    """Codes that differ from one code in one module. If the module still defines, imports and registers the same names,
    resolved references and all hashes that the change cannot affect are reused. Everything else is computed."""

    def __init__(self, code: Code, entries: Iterable[tuple[str, ...]]) -> None:
        self.code, self._users = code, dict[Code, dict[Key, list[Key]]]()
        for each in entries:
            code.root(each)
        for one in (code, *code._without.values()):
            users = self._users[one] = defaultdict(list)
            for key, (_, uses) in one._nodes.items():
                for use in uses:
                    users[use].append(key)

    def of(self, module: str, text: str) -> Code:
        before, after = self.code._module(module), parse.__wrapped__(text)
        assert _names(after) == _names(before), f"{module} has other names than before"
        old, new = _said(before, self.code.sources[module]), _said(after, text)
        other = {name for name in old if old[name] != new[name]}
        after.pieces |= {name: piece for name, piece in before.pieces.items() if name not in other}
        keys = [(module, name) for name in other]
        changed = self._of(self.code, Changed(self.code, module, text, after), keys)
        changed._without = {
            names: self._of(one, Changed(one, module, text, after), keys) for names, one in self.code._without.items()
        }
        return changed

    def _of(self, one: Code, changed: Code, keys: Iterable[Key]) -> Code:
        said = {key: one._nodes[key] for key in keys if key in one._nodes}
        changed._nodes = {key: node for key, node in one._nodes.items() if key not in said}
        other = [key for key, node in said.items() if changed._node(key) != node]
        seen_by = reached(other, lambda key: self._users[one][key])
        changed._ids = {key: value for key, value in one._ids.items() if key not in seen_by}
        return changed


def _names(module: Module) -> tuple[object, ...]:
    return module.statements.keys(), module.imports, dict(module.decorated()), bool(module.always)


def _said(module: Module, text: str) -> dict[str, list[list[str]]]:
    """The lines of each definition, and of the statements that run on import. Equal lines have equal content."""
    lines, named = text.splitlines(), {**module.statements, ON_IMPORT: module.always}
    return {name: [lines[first(each) - 1 : each.end_lineno] for each in found] for name, found in named.items()}


def first(statement: ast.stmt) -> int:
    """The first line of a statement, with its decorators."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def written(text: str, statement: ast.stmt) -> str:
    """A module's text, in which a changed top-level statement replaces the old one."""
    lines = text.splitlines()
    assert statement.end_lineno is not None
    lines[first(statement) - 1 : statement.end_lineno] = [ast.unparse(ast.fix_missing_locations(statement))]
    return "\n".join(lines)
