"""The id of a definition follows from its own content and from all definitions that it reaches."""

import random

import pytest
from support.small_jobs import root

from rtm.lineage.definitions import Definition, Graph, identify, reached, short_hash

Uses = dict[int, tuple[str, tuple[int, ...]]]  # own content and uses

CYCLE = (
    "def f(n):\n    return g(n) + h(n)\ndef g(n):\n    return n and {0}(n - 1)\ndef h(n):\n    return n or {1}(n - 1)\n"
)


def test_definitions_that_use_each_other() -> None:
    """The names in a cycle do not change the id, but its code does."""
    ways = {root({"a": CYCLE.format(one, other)}) for one in "fgh" for other in "fgh"}
    assert len(ways) == 9
    renamed = CYCLE.format("q", "g").replace("h(n", "q(n")
    assert root({"a": renamed}) == root({"a": CYCLE.format("h", "g")})
    even = "def f(n):\n    return not n or g(n - 1)\ndef g(n):\n    return not n or f(n - 1)\n"
    split = {
        "a": "from rtm.b import g\n" + even.split("def g")[0],
        "b": "from rtm.a import f\ndef g" + even.split("def g")[1],
    }
    assert root({"a": even}) == root(split)
    assert root({"a": even}) != root({"a": even.replace("f(n - 1)", "f(n - 2)")})
    chain = "def f(n):\n    return {0}(n)\ndef g(n):\n    return {1}(n)\ndef h(n):\n    return {2}(n)\nX = 1\n"
    assert root({"a": chain.format("g", "h", "f")}) != root({"a": chain.format("g", "h", "X")})


def drawn(chance: random.Random) -> Uses:
    """Definitions with only two different contents, so many are the same. Their uses have cycles, or have none."""
    count, is_round, uses = chance.randrange(1, 7), chance.randrange(2), dict[int, tuple[int, ...]]()
    for key in range(count):
        within = range(count if is_round else key)
        uses[key] = tuple(chance.choices(within, k=chance.choice((0, 1, 2, 2)))) if within else ()
    return {key: (chance.choice("ab"), uses[key]) for key in uses}


def ids_of(uses: Uses) -> dict[int, str]:
    ids: dict[int, str] = {}
    identify(uses, uses.__getitem__, ids)
    return ids


def unfolded(uses: Uses, key: int, depth: int) -> str:
    """The content of a definition, with all its uses written out to this depth."""
    own, below = uses[key]
    return f"{own}({','.join(unfolded(uses, use, depth - 1) for use in below)})" if depth else ""


@pytest.mark.parametrize("seed", range(20))
def test_what_has_one_id_says_the_same_however_far_it_is_followed(seed: int) -> None:
    """If two of n definitions differ, they differ within n steps. They may be in different graphs."""
    chance = random.Random(seed)
    graphs = [drawn(chance) for _ in range(20)]
    said: dict[str, set[str]] = {}
    for uses in graphs:
        for key, found in ids_of(uses).items():
            said.setdefault(found, set()).add(unfolded(uses, key, 8))
    assert all(len(texts) == 1 for texts in said.values())


@pytest.mark.parametrize("seed", range(20))
def test_names_and_order_change_no_id(seed: int) -> None:
    chance = random.Random(seed)
    uses = drawn(chance)
    new = dict(zip(uses, chance.sample(range(100), len(uses)), strict=True))
    keys = chance.sample(list(uses), len(uses))
    renamed = {new[key]: (uses[key][0], tuple(new[use] for use in uses[key][1])) for key in keys}
    assert {key: ids_of(renamed)[new[key]] for key in uses} == ids_of(uses)


def graph(uses: Uses) -> Graph:
    ids = ids_of(uses)
    definitions = {
        ids[key]: Definition(f"m:{key}", own, tuple(ids[use] for use in used)) for key, (own, used) in uses.items()
    }
    return Graph(definitions, [ids[0]])


@pytest.mark.parametrize("seed", range(20))
def test_a_graph_comes_back_as_it_was_and_tells_every_change(seed: int) -> None:
    made = graph(drawn(random.Random(seed)))
    assert made.follows() and Graph.of(made.text()) == made and Graph.of(made.text()).root == made.root
    for key, each in made.items():
        for other in (
            Definition(each.name, f"{each.own}x", each.uses),
            Definition(each.name, each.own, (*each.uses, key)),
        ):
            assert not Graph({**made, key: other}, made.entries).follows()
    assert not Graph(made, ["elsewhere"]).follows()
    assert not Graph({**made, short_hash("b"): Definition("m:b", "a", ("gone",))}, made.entries).follows()


def test_what_is_below_leaves_out_the_start_unless_it_is_reached() -> None:
    made = graph({0: ("a", (1,)), 1: ("b", (2,)), 2: ("c", (1,)), 3: ("d", ())})
    below = {each.name: {made[key].name for key in made.below(name)} for name, each in made.items()}
    assert below == {"m:0": {"m:1", "m:2"}, "m:1": {"m:1", "m:2"}, "m:2": {"m:1", "m:2"}, "m:3": set()}
    assert reached([3], {3: [3, 4], 4: [3]}.__getitem__) == {3, 4}
