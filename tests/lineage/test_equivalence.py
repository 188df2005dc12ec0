"""Accepted equal code: by definition, in any order, and nothing beyond the accepted lines."""

import itertools
from pathlib import Path

import pytest
from support.small_jobs import check_alone, job, make

from rtm.core.errors import UserError
from rtm.lineage import equivalence
from rtm.lineage.definitions import Graph
from rtm.lineage.equivalence import Comparison, Line, aligned, smallest
from rtm.lineage.fingerprint import Code

BASE = {
    "a": "from rtm.b import middle\n\n\ndef main(x):\n    return middle(x) + 1\n",
    "b": "from rtm.c import leaf, other\n\n\ndef middle(x):\n    return leaf(x) * other(x)\n",
    "c": "def leaf(x):\n    return x + x\n\n\ndef other(x):\n    return x - 1\n",
}
LEAF = ("c", "return x + x", "return 2 * x")
OTHER = ("c", "return x - 1", "return -1 + x")
MIDDLE = ("b", "return leaf(x) * other(x)", "return other(x) * leaf(x)")
MAIN = ("a", "return middle(x) + 1", "result = middle(x)\n    return 1 + result")
Edit = tuple[str, str, str]


def graph(*edits: Edit) -> Graph:
    sources = dict(BASE)
    for name, old, new in edits:
        assert old in sources[name]
        sources[name] = sources[name].replace(old, new)
    return Code({"rtm": "", **{f"rtm.{name}": text for name, text in sources.items()}}).graph(["rtm.a:main"])


def lines(old: Graph, new: Graph, *known: Line) -> list[Line]:
    """The lines to accept, so that the new code counts as the old code."""
    compared = Comparison(old, new, known)
    found = smallest([compared.line(pair, {"reason": "r"}) for pair in compared.changed], [compared])
    assert Comparison(old, new, [*known, *found]).equal()
    assert [Line.of(line.text()) for line in found] == found
    return found


def names(found: list[Line]) -> list[str]:
    return sorted(line.definitions[1].name for line in found)


def test_what_changed_is_named() -> None:
    assert Comparison(graph(), graph()).reasons == []
    assert Comparison(graph(), graph(LEAF)).reasons == ["code of rtm.c:leaf changed"]
    assert Comparison(graph(), graph(MIDDLE)).reasons == ["code of rtm.b:middle changed"]  # the uses are the same
    used = ("b", "leaf(x) * other(x)", "leaf(x) * leaf(x)")
    assert Comparison(graph(), graph(used)).reasons == ["code of rtm.b:middle changed", "rtm.c:other is gone"]
    assert Comparison(graph(used), graph()).reasons == ["code of rtm.b:middle changed", "rtm.c:other is new"]
    renamed = [("c", "def leaf", "def sheet"), ("b", "import leaf", "import sheet as leaf"), OTHER]
    assert Comparison(graph(), graph(*renamed)).reasons == ["code of rtm.c:other changed"]
    both = [*renamed[:2], LEAF]
    assert Comparison(graph(), graph(*both)).reasons == ["code of rtm.c:sheet changed"]  # found by its place
    assert len(aligned(graph(), graph(*both))) == 4


def test_an_accepted_leaf_keeps_its_users() -> None:
    accepted = lines(graph(), graph(LEAF))
    assert names(accepted) == ["rtm.c:leaf"]
    assert Comparison(graph(), graph(LEAF), accepted).equal()
    assert Comparison(graph(LEAF), graph(), accepted).equal()


def test_acceptances_are_transitive() -> None:
    again = ("c", "return x + x", "return x * 2")
    first, second = lines(graph(), graph(LEAF)), lines(graph(LEAF), graph(again))
    assert Comparison(graph(), graph(again), [*first, *second]).equal()
    assert not Comparison(graph(), graph(again), second).equal()


def test_later_acceptances_compose() -> None:
    first = lines(graph(), graph(LEAF, MAIN))
    assert names(first) == ["rtm.a:main", "rtm.c:leaf"]
    second = lines(graph(LEAF, MAIN), graph(LEAF, MAIN, OTHER))
    assert names(second) == ["rtm.c:other"]
    assert Comparison(graph(), graph(LEAF, MAIN, OTHER), [*first, *second]).equal()
    assert names(lines(graph(), graph(LEAF, MAIN, OTHER), *first)) == ["rtm.c:other"]


def test_a_later_change_is_one() -> None:
    accepted = lines(graph(), graph(LEAF, MAIN))
    other = Comparison(graph(), graph(LEAF, MAIN, ("c", "return x - 1", "return x - 2")), accepted)
    assert not other.equal() and other.reasons == ["code of rtm.c:other changed"]
    back = Comparison(graph(), graph(("c", "return x + x", "return 3 * x")), accepted)
    assert not back.equal() and back.reasons == ["code of rtm.c:leaf changed"]


@pytest.mark.parametrize("edits", list(itertools.combinations([LEAF, OTHER, MIDDLE, MAIN], 2)))
def test_branches_merge_in_any_order(edits: tuple[Edit, Edit]) -> None:
    """Each branch accepts its own change of the common code. Together these lines accept the merged code."""
    found = [line for edit in edits for line in lines(graph(), graph(edit))]
    for order in itertools.permutations([*found, found[0]]):
        assert Comparison(graph(), graph(*edits), order).equal()
        assert not Comparison(graph(), graph(*edits, ("c", "def leaf(x):", "def leaf(x, y=1):")), order).equal()


def test_branches_with_several_changes_each_merge() -> None:
    mine, theirs = [LEAF, MAIN], [OTHER]
    found = lines(graph(), graph(*mine)) + lines(graph(), graph(*theirs))
    assert Comparison(graph(), graph(*mine, *theirs), found).equal()
    helper = (
        "a",
        "def main(x):\n    return middle(x) + 1",
        "def help(x):\n    return middle(x)\n\n\ndef main(x):\n    return help(x) + 1",
    )
    found = lines(graph(), graph(LEAF, helper)) + lines(graph(), graph(*theirs))
    assert Comparison(graph(), graph(LEAF, helper, *theirs), found).equal()


CYCLE = """
def main(n):
    return n and odd(n - 1) + leaf()

def odd(n):
    return n or main(n - 1)

def leaf():
    return 2
"""


def test_definitions_that_use_each_other() -> None:
    def cycle(old: str = "", new: str = "") -> Graph:
        return Code({"rtm.a": CYCLE.replace(old, new) if old else CYCLE}).graph(["rtm.a:main"])

    leaf, odd = cycle("return 2", "return 1 + 1"), cycle("n or main", "not n or main")
    assert names(lines(cycle(), leaf)) == ["rtm.a:leaf"]
    accepted = lines(cycle(), odd)
    assert names(accepted) == ["rtm.a:odd"]
    assert not Comparison(cycle(), leaf, accepted).equal()


def test_definitions_that_were_the_same_but_for_their_names() -> None:
    twins = "X = 64\nY = 64\n\n\ndef main():\n    return X - Y\n"
    before, after = (Code({"rtm.a": text}).graph(["rtm.a"]) for text in (twins, twins.replace("Y = 64", "Y = 8 * 8")))
    assert Comparison(before, after).reasons == ["code of rtm.a:Y changed"]
    assert names(lines(before, after)) == ["rtm.a:Y"]
    swapped = Code({"rtm.a": "Y = 64\nX = 65\ndef main():\n    return Y - X\n"}).graph(["rtm.a"])
    named = Code({"rtm.a": "X = 64\nY = 65\ndef main():\n    return X + Y\n"}).graph(["rtm.a"])
    assert Comparison(swapped, named).reasons == ["code of rtm.a:main changed"]


def test_redundant_lines_are_left_out() -> None:
    compared = Comparison(graph(), graph(LEAF))
    pairs = [(a, b) for a, b in compared.pairs if a != b]
    assert len(pairs) == 3
    assert names(smallest([compared.line(pair, {}) for pair in pairs], [compared])) == ["rtm.c:leaf"]


def test_a_line_that_is_none_is_named(package: Path) -> None:
    make(job("train"))
    equivalence.FILE.write_text("{}\n")
    with pytest.raises(UserError, match=r"Line 1 of lineage/equivalences\.jsonl is not a valid acceptance"):
        check_alone(job("train"))
