"""Definitions and the graph of their uses: the id of a definition hashes its own content and the ids of its uses."""

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

K = TypeVar("K", bound=Hashable)


def short_hash(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Definition:
    name: str  # only for people: "module:name"; several with commas if definitions differ only in their names
    own: str  # a hash of its own content
    uses: tuple[str, ...]  # ids, in the order of first appearance


class Graph(dict[str, Definition]):
    """Definitions by id, and the ids of a job's entries."""

    def __init__(self, definitions: Mapping[str, Definition], entries: Iterable[str]) -> None:
        super().__init__(definitions)
        self.entries = tuple(sorted(set(entries)))

    @property
    def root(self) -> str:
        return short_hash(*self.entries)

    def below(self, key: str) -> set[str]:
        """The ids of all definitions that a definition reaches."""
        return reached(self[key].uses, lambda each: self[each].uses)

    def text(self) -> str:
        """The graph as JSON, with a line for each definition."""
        lines = [f"{json.dumps(key)}: {json.dumps(vars(self[key]))}" for key in sorted(self)]
        return f'{{"entries": {json.dumps(self.entries)},\n"definitions": {{\n' + ",\n".join(lines) + "\n}}\n"

    @classmethod
    def of(cls, text: str) -> "Graph":
        """The graph from the result of `text`. Any other text raises a KeyError, TypeError or ValueError."""
        read = json.loads(text)
        found = {key: definition(value) for key, value in read["definitions"].items()}
        return cls(found, map(str, read["entries"]))

    def follows(self) -> bool:
        """Whether every id is the hash of the content behind it."""
        ids: dict[str, str] = {}
        try:
            identify(self, lambda key: (self[key].own, self[key].uses), ids)
        except KeyError:
            return False
        return ids.keys() == self.keys() >= set(self.entries) and all(key == value for key, value in ids.items())


def definition(value: Mapping[str, Any]) -> Definition:
    return Definition(str(value["name"]), str(value["own"]), tuple(map(str, value["uses"])))


def identify(starts: Iterable[K], node: Callable[[K], tuple[str, Sequence[K]]], ids: dict[K, str]) -> None:
    """Add the ids of everything that `starts` reach; `node` gives the own content and the uses of a key."""
    for component in _components(starts, lambda key: node(key)[1], ids):
        nodes = {key: node(key) for key in component}
        (first, (own, uses)), *others = nodes.items()
        if others or first in uses:
            ids.update(_refined(nodes, ids))
        else:
            ids[first] = short_hash(own, *(ids[use] for use in uses))


def reached(starts: Iterable[K], uses: Callable[[K], Sequence[K]]) -> set[K]:
    todo = list(starts)
    seen = set(todo)
    while todo:
        new = [use for use in uses(todo.pop()) if use not in seen]
        seen.update(new)
        todo += new
    return seen


def _refined(nodes: Mapping[K, tuple[str, Sequence[K]]], ids: Mapping[K, str]) -> dict[K, str]:
    """Ids of definitions that use each other (colour refinement). Each definition gets a colour by its content, then by
    its colour and the colours of its uses, until the number of colours no longer grows."""
    colours = {key: short_hash(own, *(ids.get(use, "") for use in uses)) for key, (own, uses) in nodes.items()}
    while True:
        finer = {
            key: short_hash(colours[key], *(colours.get(use) or ids[use] for use in uses))
            for key, (_, uses) in nodes.items()
        }
        if len(set(finer.values())) == len(set(colours.values())):
            break
        colours = finer
    together = short_hash(*sorted(set(finer.values())))
    return {key: short_hash(colour, together) for key, colour in finer.items()}


def _components(starts: Iterable[K], uses: Callable[[K], Sequence[K]], done: Mapping[K, Any]) -> Iterator[list[K]]:
    """Groups of definitions that use each other (Tarjan). The caller adds each group to `done` before the next."""
    order: dict[K, int] = {}
    low: dict[K, int] = {}
    stack: list[K] = []
    work: list[tuple[K, Iterator[K]]] = []

    def enter(key: K) -> None:
        order[key] = low[key] = len(order)
        stack.append(key)
        work.append((key, iter(uses(key))))

    for start in starts:
        if start not in done:
            enter(start)
        while work:
            key, rest = work[-1]
            after = next((use for use in rest if use not in done), None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[key])
                if low[key] == order[key]:
                    place = stack.index(key)
                    yield stack[place:]
                    del stack[place:]
            elif after in order:
                low[key] = min(low[key], order[after])
            else:
                enter(after)
