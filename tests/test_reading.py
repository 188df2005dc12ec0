"""Files are parsed only inside a guard: a damaged file then becomes a one-sentence error, or counts as missing."""

import ast
from collections.abc import Iterator
from pathlib import Path

from support import ROOT

PARSERS = {
    *("json.loads", "json.load", "np.load", "pd.read_csv", "csv.reader", "csv.DictReader", "torch.load", "safe_open"),
    *("load_file", "yaml.load", "yaml.safe_load", "pickle.load", "pickle.loads", "Image.open", "open_memmap"),
}
GUARDS = ("reading(", "suppress(*UNREADABLE", "except UNREADABLE", "except DAMAGED")
HANDLED = {  # files that parse outside a guard, and the reason
    "rtm/core/files.py": "the readers themselves",
    "rtm/config/reading.py": "params/, with the line in the message",
    "rtm/data/prepare.py": "a part of an archive, whose reader turns it into a sentence",
    "rtm/data/pictures.py": "images of others, with a check of their format",
    "rtm/data/weights.py": "after the sha256 of the whole file",
    "rtm/methods/imle/perceptual.py": "a file of an installed package",
    "rtm/lineage/equivalence.py": "a line that is damaged is named by its number",
    "rtm/lineage/definitions.py": "called inside of a guard",
    "rtm/lineage/store.py": "called inside of a guard",
    "rtm/training/loop.py": "after the sha256 of the whole file, inside of `except UNREADABLE`",
    "rtm/cli/forkserver.py": "a message of the same user, not a file",
}


def unguarded(path: Path) -> Iterator[str]:
    text = path.read_text()
    tree = ast.parse(text)
    guarded: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With | ast.Try):
            head = ast.unparse(node).split("\n")
            if any(guard in line for line in head for guard in GUARDS):
                guarded |= {child.lineno for child in ast.walk(node) if isinstance(child, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in PARSERS and node.lineno not in guarded and "json.dumps" not in ast.unparse(node):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {name}"


def test_files_are_parsed_where_damage_becomes_a_sentence() -> None:
    found = [each for path in sorted((ROOT / "rtm").rglob("*.py")) for each in unguarded(path)]
    assert not [each for each in found if each.split(":")[0] not in HANDLED]


def test_every_exception_is_still_needed() -> None:
    used = {each.split(":")[0] for path in sorted((ROOT / "rtm").rglob("*.py")) for each in unguarded(path)}
    assert HANDLED.keys() <= used | {"rtm/training/loop.py"}
