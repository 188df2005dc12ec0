"""The package with one definition changed, hashed anew only where the change can be seen."""

import ast
from collections import defaultdict
from collections.abc import Iterable

from rtm.lineage.definitions import reached
from rtm.lineage.fingerprint import Code, Key
from rtm.lineage.module import Module, parse


class Variants:
    """Codes that differ from one code in a module. Those whose module still defines, imports and registers the same
    names take over where its references lead and what no change can reach; everything else is computed."""

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
        assert _names(parse(text)) == _names(self.code._module(module)), f"{module} has other names than before"
        changed = self._of(self.code, module, text)
        changed._without = {names: self._of(one, module, text) for names, one in self.code._without.items()}
        return changed

    def _of(self, one: Code, module: str, text: str) -> Code:
        changed = Code({**one.sources, module: text}, one.files, one.left_out)
        changed._found, changed._registered, changed._unselected = one._found, one._registered, one._unselected
        changed._nodes = {key: node for key, node in one._nodes.items() if key[0] != module}
        other = [key for key, node in one._nodes.items() if key[0] == module and changed._node(key) != node]
        seen_by = reached(other, lambda key: self._users[one][key])
        changed._ids = {key: value for key, value in one._ids.items() if key not in seen_by}
        return changed


def _names(module: Module) -> tuple[object, ...]:
    return module.statements.keys(), module.imports, dict(module.decorated()), bool(module.always)


def written(text: str, statement: ast.stmt) -> str:
    """A module's text with a statement of its top, parsed from it and changed since, in the place of the old one."""
    first = min(each.lineno for each in (statement, *getattr(statement, "decorator_list", [])))
    lines = text.splitlines()
    assert statement.end_lineno is not None
    lines[first - 1 : statement.end_lineno] = [ast.unparse(ast.fix_missing_locations(statement))]
    return "\n".join(lines)
