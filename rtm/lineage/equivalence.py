"""Compare two graphs of code: which definitions changed, and which were accepted as the same.

`lineage/equivalences.jsonl` has a line for each acceptance: definition `a` counts as definition `b`. Receipts do not
change; two codes are equal if they are equal after all accepted definitions are identified. The order of lines does not
matter, so two branches that both accept something merge without a conflict.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.lineage.definitions import Definition, Graph, definition

FILE = Path("lineage/equivalences.jsonl")
Pair = tuple[str, str]  # ids


@dataclass(frozen=True)
class Line:
    """An acceptance: two definitions with their ids, and who accepted them as one, when and why."""

    pair: Pair
    definitions: tuple[Definition, Definition]
    below: Mapping[str, Definition]  # the definitions that only the second one reaches, not the receipt's code
    facts: Mapping[str, str | None]  # reason, author, revision, time

    def __str__(self) -> str:
        (a, b), (old, new) = self.pair, self.definitions
        return f"{old.name} ({a}) is {new.name} ({b})"

    def text(self) -> str:
        sides = [{"id": key, **vars(each)} for key, each in zip(self.pair, self.definitions, strict=True)]
        below = {key: vars(each) for key, each in sorted(self.below.items())}
        return json.dumps({"a": sides[0], "b": sides[1], "below": below, **self.facts}) + "\n"

    def terms(self) -> dict[str, Definition]:
        return {**self.below, **dict(zip(self.pair, self.definitions, strict=True))}

    @classmethod
    def of(cls, text: str) -> "Line":
        read = json.loads(text)
        a, b = read.pop("a"), read.pop("b")
        below = {key: definition(each) for key, each in read.pop("below", {}).items()}
        return cls((str(a["id"]), str(b["id"])), (definition(a), definition(b)), below, read)


def read_lines() -> tuple[Line, ...]:
    texts = FILE.read_text().splitlines() if FILE.exists() else []
    return tuple(_line(number, text) for number, text in enumerate(texts, 1) if text.strip())


def _line(number: int, text: str) -> Line:
    try:
        return Line.of(text)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"Line {number} of {FILE} is not a valid acceptance; correct it, or delete it.") from None


def append(lines: Iterable[Line]) -> None:
    texts = [line.text() for line in lines]
    if not texts:
        return
    before = FILE.read_text() if FILE.exists() else ""
    write_text(FILE, before + ("\n" if before and not before.endswith("\n") else "") + "".join(texts))


class Comparison:
    """The comparison of an old and a new graph, given all acceptances."""

    def __init__(self, old: Graph, new: Graph, lines: Sequence[Line] = ()) -> None:
        self.old, self.new = old, new
        self.terms = {key: each for line in lines for key, each in line.terms().items()} | {**old, **new}
        self.accepted = [line.pair for line in lines]
        self.classes = classes(self.terms, self.accepted) if lines else {}
        self.pairs = aligned(old, new)
        self._equal: dict[tuple[Pair, ...], bool] = {}

    def equal(self, more: tuple[Pair, ...] = ()) -> bool:
        """Whether the entries of both graphs are equal. The pairs in `more` count as accepted."""
        if more not in self._equal:
            found = classes(self.terms, [*self.accepted, *more]) if more else self.classes
            old, new = ({found.get(key, key) for key in graph.entries} for graph in (self.old, self.new))
            self._equal[more] = old == new
        return self._equal[more]

    @cached_property
    def changed(self) -> list[Pair]:
        """The definitions that changed, in content or in references, and were not accepted."""
        found = [pair for pair in sorted(self.pairs) if not self._same(*pair) and self._differs(*pair)]
        touched = {self.classes[key] for pair in self.accepted for key in pair}
        # pairs that were accepted before, and differ now only because definitions that they use changed
        again = {pair for pair in found if self.classes.get(pair[0]) in touched}
        return _independent(found, again, self.terms, self.accepted)

    def line(self, pair: Pair, facts: Mapping[str, str | None]) -> Line:
        a, b = pair
        below = {key: self.new[key] for key in self.new.below(b) if key not in self.old}
        return Line(pair, (self.old[a], self.new[b]), below, facts)

    def _same(self, a: str, b: str) -> bool:
        return self.classes.get(a, a) == self.classes.get(b, b)

    def _differs(self, a: str, b: str) -> bool:
        old, new = self.old[a], self.new[b]
        if old.own != new.own or len(old.uses) != len(new.uses):
            return True
        return any(not (pair in self.pairs or self._same(*pair)) for pair in zip(old.uses, new.uses, strict=True))

    @cached_property
    def reasons(self) -> list[str]:
        """Sentences that name the changes; empty if the code is equal."""
        if self.equal():
            return []
        changed = sorted(f"code of {self.new[b].name} changed" for _, b in self.changed)
        before, after = {a for a, _ in self.pairs}, {b for _, b in self.pairs}
        new = {each.name for key, each in self.new.items() if key not in after}
        gone = {each.name for key, each in self.old.items() if key not in before}
        found = [*changed, *(f"{name} is new" for name in sorted(new - gone))]
        return [*found, *(f"{name} is gone" for name in sorted(gone - new))] or ["the code that it starts with changed"]


def smallest(lines: Iterable[Line], compared: Iterable[Comparison]) -> list[Line]:
    """The lines without lines that follow from the others."""
    kept, every = {line.pair: line for line in lines}, list(compared)
    terms = {key: term for each in every for key, term in each.terms.items()}
    accepted = {pair for each in every for pair in each.accepted}
    return [kept[pair] for pair in _independent(list(kept), set(kept), terms, accepted)]


def _independent(
    pairs: Sequence[Pair], doubtful: set[Pair], terms: Mapping[str, Definition], accepted: Iterable[Pair]
) -> list[Pair]:
    """The pairs, without the doubtful ones that follow from the others."""
    kept, known = dict.fromkeys(pairs), list(accepted)
    for a, b in sorted(doubtful, key=lambda pair: (terms[pair[0]].own != terms[pair[1]].own, pair)):
        found = classes(terms, [*known, *(pair for pair in kept if pair != (a, b))])
        if found[a] == found[b]:
            del kept[a, b]
    return list(kept)


def aligned(old: Graph, new: Graph) -> set[Pair]:
    """Pairs of an old definition and its new counterpart: by id, else by name, by place or by content."""
    names = [{name: key for key, each in graph.items() for name in each.name.split(", ")} for graph in (old, new)]
    named = {(names[0][name], names[1][name]) for name in names[0].keys() & names[1].keys()}
    pairs = {(key, key) for key in old.keys() & new.keys()}
    pairs |= {(a, b) for a, b in named if a not in new or b not in old}
    for more in (_entered(old, new), _by_content(old, new)):
        _add(more, pairs)
        for a, b in (todo := sorted(pairs)):
            if old[a].own == new[b].own:  # so their uses have the same order
                todo += _add(zip(old[a].uses, new[b].uses, strict=False), pairs)
    return pairs


def _add(more: Iterable[Pair], pairs: set[Pair]) -> list[Pair]:
    """Add each pair if neither side is in another pair yet."""
    before, after = {a for a, _ in pairs}, {b for _, b in pairs}
    found = []
    for a, b in more:
        if a not in before and b not in after:
            found.append((a, b))
            before.add(a)
            after.add(b)
    pairs.update(found)
    return found


def _entered(old: Graph, new: Graph) -> list[Pair]:
    before, after = (sorted(set(one.entries) - set(other.entries)) for one, other in ((old, new), (new, old)))
    return list(zip(before, after, strict=True)) if len(before) == len(after) == 1 else []


def _by_content(old: Graph, new: Graph) -> list[Pair]:
    """Pairs of definitions with the same own content, if it occurs exactly once in each graph."""
    counts = [Counter(each.own for each in graph.values()) for graph in (old, new)]
    places = {each.own: key for key, each in new.items()}
    return [(key, places[old[key].own]) for key in sorted(old) if all(count[old[key].own] == 1 for count in counts)]


def classes(terms: Mapping[str, Definition], pairs: Iterable[Pair]) -> dict[str, str]:
    """A representative for each definition. Definitions that are equal, given the pairs, have the same representative.

    Two definitions are equal if they are a pair, or if their own content is the same and their uses are equal, one by
    one. All definitions start in one class, which is split as long as there are differences. So it also works for
    definitions that use each other.
    """
    united = list(pairs)
    used = (use for each in terms.values() for use in each.uses)
    keys = sorted({*terms, *used, *(key for pair in united for key in pair)})
    found = dict.fromkeys(keys, "")
    while True:
        first: dict[tuple[str, ...], str] = {}
        same = [(key, first.setdefault(_content(key, terms, found), key)) for key in keys]
        finer = _united(keys, [*united, *same])
        if len(set(finer.values())) == len(set(found.values())):
            return finer
        found = finer


def _content(key: str, terms: Mapping[str, Definition], found: Mapping[str, str]) -> tuple[str, ...]:
    if key not in terms:
        return ("unknown", key)
    return (terms[key].own, *(found[use] for use in terms[key].uses))


def _united(keys: Iterable[str], pairs: Iterable[Pair]) -> dict[str, str]:
    parent = {key: key for key in keys}

    def top(key: str) -> str:
        while parent[key] != key:
            key = parent[key]
        return key

    for a, b in pairs:
        low, high = sorted((top(a), top(b)))
        parent[high] = low
    return {key: top(key) for key in parent}
