"""Files are parsed only inside a guard: a damaged file then becomes a one-sentence error, or counts as missing. Text is
UTF-8 on every machine."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT

PARSERS = {
    *("json.loads", "json.load", "np.load", "pd.read_csv", "csv.reader", "csv.DictReader", "torch.load", "safe_open"),
    *("load_file", "yaml.load", "yaml.safe_load", "pickle.load", "pickle.loads", "Image.open", "open_memmap"),
}
GUARDS = ("reading(", "suppress(*UNREADABLE", "suppress(UserError, *UNREADABLE", "except UNREADABLE", "except DAMAGED")
HANDLED = {  # files that parse outside a guard, and the reason
    "rtm/core/readers.py": "the readers themselves",
    "rtm/core/sealed.py": "after the sha256 of the whole file",
    "rtm/config/reading.py": "params/, with the line in the message",
    "rtm/data/kinds.py": "a part of an archive, whose reader turns it into a sentence",
    "rtm/data/pictures.py": "images of others, with a check of their format",
    "rtm/data/networks.py": "after the sha256 of the whole file",
    "rtm/methods/imle/perceptual.py": "a file of an installed package",
    "rtm/metrics/standalone.py": "a file of this package",
    "rtm/checkpoints/stored.py": "without pydantic, which the readers need; damage means that nothing is stored",
    "rtm/training/loop.py": "after the sha256 of the whole file, inside of `except UNREADABLE`",
}
ARGUMENTS = {"read_text": 1, "write_text": 2}  # with the encoding


def calls(path: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            yield node


def guarded_lines(path: Path) -> set[int]:
    lines: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.With | ast.Try):
            text = ast.unparse(node).split("\n")
            if any(guard in line for line in text for guard in GUARDS):
                lines |= {child.lineno for child in ast.walk(node) if isinstance(child, ast.Call)}
    return lines


def unguarded(path: Path) -> Iterator[str]:
    guarded = guarded_lines(path)
    for call in calls(path):
        name = ast.unparse(call.func)
        if name in PARSERS and call.lineno not in guarded and "json.dumps" not in ast.unparse(call):
            yield f"{path.relative_to(ROOT)}:{call.lineno} {name}"


def all_unguarded() -> list[str]:
    return [place for path in sorted((ROOT / "rtm").rglob("*.py")) for place in unguarded(path)]


def test_files_are_parsed_where_damage_becomes_a_sentence() -> None:
    assert not [place for place in all_unguarded() if place.split(":")[0] not in HANDLED]


def test_every_exception_is_still_needed() -> None:
    used = {place.split(":")[0] for place in all_unguarded()}
    assert HANDLED.keys() <= used | {"rtm/training/loop.py"}


@pytest.mark.parametrize("folder", ["rtm", "tests", "benchmarks"])
def test_text_has_an_encoding(folder: str) -> None:
    """Ruff sees this only where it knows that a value is a path."""
    without = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        for call in calls(path):
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            keywords = {keyword.arg for keyword in call.keywords}
            if len(call.args) < ARGUMENTS.get(name, 0) and "encoding" not in keywords:
                without.append(f"{path.relative_to(ROOT)}:{call.lineno}")
    assert not without
