"""Read YAML files as plain data: names, texts and numbers."""

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError, SafeConstructor

from rtm.core.errors import UserError, printable

TAG = "tag:yaml.org,2002:"
PLAIN = {  # what a text without quotes is, as in the core schema of YAML 1.2
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+",
    # the exponent has at most three digits, so that no checksum is read as a number
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
    "merge": r"<<",
}
LONGEST = 400  # characters of a message
Raw = dict[str, Any]


def read_sections(paths: Iterable[Path]) -> tuple[Raw, dict[str, Path]]:
    """The sections of several files, and the file of each. The values are shared: nobody may change them."""
    raw: Raw = {}
    files: dict[str, Path] = {}
    for path in paths:
        for name, section in _read(path).items():
            if name in files:
                raise UserError(f"{path}: section {name!r} is also in {files[name]}; keep one of them.")
            raw[name] = section
            files[name] = path
    return raw, files


def _read(path: Path) -> Raw:
    try:
        content = parsed(path.read_text("utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8.") from None
    except ValueError as error:
        raise UserError(f"{path} is not valid YAML: {error}.") from None
    return mapping({} if content is None else content, str(path))


@lru_cache(64)  # every scale reads the same files
def parsed(text: str) -> Any:
    """The value of a YAML text. A faulty text raises a ValueError with the reason."""
    try:
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise ValueError(printable(reason)[:LONGEST]) from None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C parser is 8 x as fast
    """YAML 1.2, in which 010 is ten and `1:30`, `yes` and dates are texts. A key that is written twice is refused."""

    yaml_implicit_resolvers: dict[str, Any] = {}
    yaml_constructors: dict[str | None, Any] = {None: SafeConstructor.construct_undefined}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        nodes = [key for key, _ in node.value if key.tag != f"{TAG}merge"]
        keys = [self.construct_object(key, True) for key in nodes]
        odd = [str(key) for key in keys if not _is_name(key)]
        if odd:
            raise ConstructorError(None, None, f"{', '.join(odd)} is no name; put it in quotes", node.start_mark)
        twice = {str(key) for key in keys if keys.count(key) > 1}
        if twice:
            raise ConstructorError(None, None, f"{', '.join(sorted(twice))} is written twice", node.start_mark)
        return dict(super().construct_mapping(node, deep))


def _is_name(key: Any) -> bool:
    return isinstance(key, str | int) and not isinstance(key, bool)


def _integer(loader: _Loader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    return int(text, 0 if text.startswith(("0x", "0o")) else 10)


for _kind, _pattern in PLAIN.items():
    _Loader.add_implicit_resolver(f"{TAG}{_kind}", re.compile(f"^(?:{_pattern})$"), None)
for _kind in ("null", "bool", "float", "str", "seq", "map"):
    _Loader.add_constructor(f"{TAG}{_kind}", SafeConstructor.yaml_constructors[f"{TAG}{_kind}"])
_Loader.add_constructor(f"{TAG}int", _integer)


def mapping(value: Any, place: str) -> Raw:
    if not isinstance(value, dict):
        raise UserError(f"{place}: write names with their values, `name: value` (got {short(value)}).")
    return value


def short(value: Any, most: int = 120) -> str:
    text = repr(value)
    if len(text) > most:
        text = f"{text[:most]}..."
    return printable(text)
