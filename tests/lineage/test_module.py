"""The top level of a module: its definitions, its imports, and the statements that run on import."""

import pytest

from rtm.lineage.module import ON_IMPORT, parse
from rtm.lineage.scopes import Import


@pytest.mark.parametrize(
    ("text", "defined", "bound", "runs"),
    [
        ('"""A docstring."""\n# a comment', "", "", 0),
        ("def x(): pass\nasync def y(): pass\nclass z: pass", "x y z", "", 0),
        ("x = y = 1\n(z, w) = 1, 2", "x y z w", "", 0),
        ("x: int = 1\ny: int", "x y", "", 0),
        ("x[0] = 1\nx.y = 2\nx += 1\n[x] = [1]", "", "", 4),  # [x] = is rare, so it counts as a statement
        ("x = (y := 1)", "", "", 1),  # it binds y too
        ("for x in y: pass\nif x: y = 1\nprint(x)\ndel x", "", "", 4),
        ("import a.b, c as d\nfrom e import f", "", "a d f", 0),
        ("from a import *", "", "", 1),  # the names are unknown
        ("if TYPE_CHECKING:\n    from a import b", "", "", 0),
        ("if not TYPE_CHECKING:\n    from a import b", "", "", 1),
        ("try:\n    import a\nexcept ImportError:\n    a = None", "", "", 1),
    ],
)
def test_a_statement_defines_imports_or_runs(text: str, defined: str, bound: str, runs: int) -> None:
    module = parse(text)
    assert (list(module.statements), list(module.imports), len(module.always)) == (defined.split(), bound.split(), runs)


def test_two_definitions_of_one_name_both_count() -> None:
    """The second may use the first, as a setter uses its property."""
    once, twice, other = (parse(text) for text in ("x = 1", "x = 1\nx = x + 1", "x = 2\nx = x + 1"))
    assert len(twice.statements["x"]) == 2
    assert len({once.piece("x"), twice.piece("x"), other.piece("x")}) == 3


def test_the_order_of_what_runs_on_import_counts() -> None:
    pieces = {parse(text).piece(ON_IMPORT) for text in ("a()\nb()", "b()\na()", "a()\nb()\ndef c(): pass")}
    assert len(pieces) == 2


def test_decorators_are_named_with_what_they_refer_to() -> None:
    module = parse("from a import register as r\n@r(1)\n@b.c\ndef x(): pass\ndef y(): pass")
    assert [(name, [(ref.name, ref.chain) for ref in refs]) for name, refs in module.decorated()] == [
        ("x", [("r", ()), ("b", ("c",))])
    ]
    assert module.imports["r"] == Import(0, "a", ("register",))
