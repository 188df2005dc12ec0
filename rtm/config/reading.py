"""Read YAML files as plain data (names, texts, numbers), with limits on size and depth."""

import math
import pickle
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError

from rtm.core.errors import UserError, printable

MOST_NODES = 200_000  # most values in one file; all of params/ has about 15,000
DEEPEST = 50  # levels of nesting
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
PLAIN = (str, int, float, list, dict, type(None))
Raw = dict[str, Any]


def read_sections(paths: Iterable[Path]) -> tuple[Raw, dict[str, Path]]:
    """The sections of several files, and the file of each."""
    raw: Raw = {}
    files: dict[str, Path] = {}
    for path in paths:
        try:
            content = pickle.loads(_kept(path.read_text("utf-8")))
        except UnicodeDecodeError as error:
            raise UserError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
        except ValueError as error:
            raise UserError(f"{path} is not valid YAML: {error}.") from None
        for key, section in mapping({} if content is None else content, str(path)).items():
            if key in files:
                raise UserError(f"{path}: section {key!r} is also in {files[key]}; keep one of them.")
            raw[key], files[key] = section, path
    return raw, files


@lru_cache(64)
def _kept(text: str) -> bytes:
    """The parsed value as a pickle. Every scale reads the same files; each gets its own copy, which it may change."""
    return pickle.dumps(parsed(text))


def parsed(text: str) -> Any:
    """The value of a YAML text. A faulty text raises a ValueError with the reason."""
    try:
        _refuse_depth(text)
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(printable(" ".join(str(error).split()))[:400]) from None


def _refuse_depth(text: str) -> None:
    """Refuse deep nesting, which would crash the C parser."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            mark: Any = event.start_mark  # the C parser has its own type for marks
            raise ConstructorError(None, None, f"it is nested more than {DEEPEST} deep", mark)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C parser is 8 x as fast
    """Safe YAML with names, texts and numbers only. It limits aliases and refuses a key that is written twice."""

    def get_single_data(self) -> Any:
        node = self.get_single_node()
        if node is None:
            return None
        if _whole_size(node, {}) > MOST_NODES:
            raise ConstructorError(
                None, None, f"its aliases stand for more than {MOST_NODES:,} values", node.start_mark
            )
        return self.construct_document(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError) as error:  # 2024-99-99, 0x_
            raise ConstructorError(None, None, f"{error}; put a text in quotes", node.start_mark) from None
        if isinstance(value, str) and CONTROL.search(value):
            raise ConstructorError(None, None, "a text holds control characters", node.start_mark)
        if not isinstance(value, PLAIN):
            kind = f"a {type(value).__name__} has no place here; put a text in quotes"
            raise ConstructorError(None, None, kind, node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        written = [key for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        keys = [self.construct_object(key, True) for key in written]
        if odd := [str(key) for key in keys if isinstance(key, bool) or not isinstance(key, str | int)]:
            raise ConstructorError(None, None, f"{', '.join(odd)} is no name; put it in quotes", node.start_mark)
        if twice := {str(key) for key in keys if keys.count(key) > 1}:
            raise ConstructorError(None, None, f"{', '.join(sorted(twice))} is written twice", node.start_mark)
        return dict(super().construct_mapping(node, deep))


# YAML 1.1 reads 4e-3 as a text, so numbers like it are resolved here. The exponent has at most three digits, so that no
# checksum is read as a number.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9]+)[eE][-+]?[0-9]{1,3}$"),
    list("-+.0123456789"),
)


def _whole_size(node: yaml.Node, known: dict[int, float]) -> float:
    """The number of values of a node with all aliases expanded; infinite if the node contains itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        below = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        parts = () if isinstance(node, yaml.ScalarNode) else below
        known[id(node)] = 1 + sum(_whole_size(part, known) for part in parts)
    return known[id(node)]


def mapping(value: Any, place: str) -> Raw:
    if not isinstance(value, dict):
        raise UserError(f"{place}: write names with their values, `name: value` (got {short(value)}).")
    return value


def short(value: Any, most: int = 120) -> str:
    text = repr(value)
    return printable(text if len(text) <= most else f"{text[:most]}...")
