"""Names are bound in the same scopes as in Python's own compiler."""

import ast
import symtable
from collections import Counter
from collections.abc import Iterator

import pytest

from rtm.lineage.fingerprint import PACKAGE
from rtm.lineage.scopes import FREE, KEPT, SCOPED, Import, Scope, binding, imported, inner

Bound = tuple[str, int, frozenset[str], frozenset[str]]  # name, line, bound names, names declared global

TRICKY = """
import a.b, c as d
from e import f as g
top = 1

def one(x, /, y=1, *rest, z=(given := 2), **others):
    global top
    top, (left, *right) = x, y
    if (seen := x) and [inside := each for each in rest if (last := each)]:
        import h.i
        from j import k as renamed
    with x as opened, y as (first, second):
        del z
    for number in rest:
        number += 1
    try:
        hinted: int
        attribute.of = x[item] = 3
    except* ValueError as error:
        pass
    match x:
        case {"key": value, **more}:
            pass
        case [left, *tail] as whole:
            pass

    def two():
        nonlocal left
        left = unknown

    class Three(base := two, metaclass=kind):
        field = left
        def method(self):
            return field

    [(lambda part, fallback=(beside := 1): (hidden := part)) for part in rest]
    return lambda argument, default=(after := 1): (local := argument) + top

async def four():
    async with x as opened:
        return {key: value async for key, value in opened}
"""


def compiled(text: str) -> Iterator[Bound]:
    """The compiler's scopes of functions and classes, without the scopes of comprehensions."""

    def walk(table: symtable.SymbolTable) -> Iterator[Bound]:
        for child in table.get_children():
            if not child.get_name().endswith(("comp", "genexpr")):
                symbols = child.get_symbols()
                bound = {each.get_name() for each in symbols if each.is_local()}
                outside = {each.get_name() for each in symbols if each.is_declared_global()}
                yield child.get_name(), child.get_lineno(), frozenset(bound), frozenset(outside)
            yield from walk(child)

    return walk(symtable.symtable(text, "text", "exec"))


def found(text: str) -> Iterator[Bound]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, SCOPED):
            scope = inner(node, None)
            yield getattr(node, "name", "lambda"), node.lineno, frozenset(scope.bound), scope.elsewhere


def test_a_scope_binds_what_the_compiler_says() -> None:
    assert Counter(found(TRICKY)) == Counter(compiled(TRICKY))


def test_the_scopes_of_the_package_are_those_of_the_compiler() -> None:
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    assert len(texts) > 100
    for path, text in texts.items():
        assert Counter(found(text)) == Counter(compiled(text)), path


def scopes(text: str) -> list[Scope]:
    """The scopes of nested definitions, the outermost first."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, SCOPED)]
    made: list[Scope] = []
    for node in nodes:
        made.append(inner(node, made[-1] if made else None))
    return made


def test_only_statements_of_a_class_see_its_names() -> None:
    outer, kind, method = scopes("def f(x):\n    class C:\n        x = 1\n        def m(self):\n            return x\n")
    assert binding("x", kind) is kind
    assert binding("x", method) is outer
    assert binding("self", method) is method and binding("m", method) is None


def test_a_global_name_is_nobodys_below() -> None:
    outer, middle, low = scopes("def f(x):\n    def g():\n        global x\n        def h():\n            return x\n")
    assert binding("x", outer) is outer and binding("x", middle) is binding("x", low) is None


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(x): pass", KEPT),
        ("def f():\n    def x(): pass", KEPT),
        ("def f():\n    class x: pass", KEPT),
        ("class C:\n    x = 1", KEPT),
        ("def f():\n    x = 1", FREE),
        ("def f(x):\n    x = 1", KEPT),
        ("def f():\n    from a import b as x", Import(0, "a", ("b",))),
        ("def f():\n    from a import b as x\n    x = 1", FREE),
    ],
)
def test_names_count_that_others_can_use(text: str, kind: object) -> None:
    assert scopes(text)[0].bound["x"] == kind


def test_imports_bind_the_name_that_is_used() -> None:
    text = "import a.b\nimport a.b as c\nfrom a import b\nfrom ..a import b as d\nfrom . import e"
    bound = [pair for statement in ast.parse(text).body for pair in imported(statement)]  # type: ignore[arg-type]
    assert bound == [
        ("a", Import(0, "a", ())),
        ("c", Import(0, "a.b", ())),
        ("b", Import(0, "a", ("b",))),
        ("d", Import(2, "a", ("b",))),
        ("e", Import(1, "", ("e",))),
    ]
