"""Write the sha256 of prepared images into params/: change one line and nothing else."""

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from rtm.config import load
from rtm.config.experiments import Dataset
from rtm.core.errors import UserError
from rtm.core.files import write_text

_BEFORE = ("licence", "citation", "sources")  # a new line is added before the first of these keys


def pin(folder: Path, name: str, sums: Mapping[str, str]) -> Path:
    """Set `sha256` of a dataset (key "images.npy") and of its test split ("test_images.npy"); return the changed file.

    Before the file is replaced, the loader reads the new text, and only these values may differ.
    """
    file = _file_of(folder)
    text = changed = file.read_text("utf-8")
    for place, key in ((("datasets", name), "images.npy"), (("datasets", name, "test"), "test_images.npy")):
        if key in sums:
            changed = _with_value(changed, place, sums[key], str(file))
    if changed != text:
        _check(folder, file.name, changed, name, sums)
        write_text(file, changed)
    return file


def _file_of(folder: Path) -> Path:
    for file in sorted(folder.glob("*.yaml")):
        root = yaml.compose(file.read_text("utf-8"), yaml.SafeLoader)
        if isinstance(root, yaml.MappingNode) and any(key.value == "datasets" for key, _ in root.value):
            return file
    raise UserError(f"No file of {folder} has a section `datasets`.")


def _with_value(text: str, place: tuple[str, ...], sha256: str, file: str) -> str:
    """The text with `sha256` set in the mapping at `place`. It changes the existing line or adds a new one."""
    node = yaml.compose(text, yaml.SafeLoader)
    for step in place:
        own = _own(node)
        if step not in own:
            raise UserError(f"{file}: write `{step}:` under {'.'.join(place[: place.index(step)])} yourself first.")
        node = own[step][1]
    own = _own(node)
    if "sha256" in own:
        value = own["sha256"][1]
        return text[: value.start_mark.index] + sha256 + text[value.end_mark.index :]
    after = own[next((key for key in _BEFORE if key in own), list(own)[-1])][0].start_mark
    indent = text[after.index - after.column : after.index]
    if indent.strip():  # the mapping is on one line, in braces
        return text[: after.index] + f"sha256: {sha256}, " + text[after.index :]
    return text[: after.index] + f"sha256: {sha256}\n{indent}" + text[after.index :]


def _own(node: yaml.Node | None) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """The mapping's own keys with their values, without the keys that it inherits by `<<`."""
    assert isinstance(node, yaml.MappingNode)
    return {key.value: (key, value) for key, value in node.value}


def _check(folder: Path, file: str, text: str, name: str, sums: Mapping[str, str]) -> None:
    before = load("paper", folder).params.datasets
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        (Path(copy) / file).write_text(text, "utf-8")
        after = load("paper", copy).params.datasets
    others = [each for each in before if each != name and before[each] != after[each]]
    if others:
        raise UserError(
            f"{folder / file}: {', '.join(others)} would take over the sha256 of {name} by `<<`; let them share a "
            "mapping without it."
        )
    if after[name] != _pinned(before[name], sums):
        raise UserError(f"{folder / file} cannot be edited safely; write sha256: {sums['images.npy']} by hand.")


def _pinned(dataset: Dataset, sums: Mapping[str, str]) -> Dataset:
    test = dataset.test and dataset.test.model_copy(update={"sha256": sums.get("test_images.npy")})
    return dataset.model_copy(update={"sha256": sums["images.npy"], "test": test})
