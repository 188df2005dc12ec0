"""Write the sha256 of prepared images into params/: change these values and nothing else."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from rtm.core.errors import UserError
from rtm.core.files import write_text

BEFORE = ("licence", "citation", "sources")  # a new line is added before the first of these keys


def pin(folder: Path, name: str, sums: Mapping[str, str]) -> Path:
    """Set `sha256` of a dataset (key "images.npy") and of its test split ("test_images.npy"); return the changed file.

    Comments, order and quotes stay as they are."""
    file, document = _with_datasets(folder)
    dataset = document["datasets"][name]
    anchor = dataset.yaml_anchor()
    if anchor:
        raise UserError(
            f"{file}: other datasets would take over the sha256 of {name} by `<<: *{anchor.value}`; let them share a "
            "mapping without it."
        )
    _set(dataset, sums["images.npy"])
    if "test_images.npy" in sums:
        _set(dataset["test"], sums["test_images.npy"])
    text = io.StringIO()
    _editor().dump(document, text)
    write_text(file, text.getvalue())
    return file


def _editor() -> YAML:
    """It writes a file as it was, except for changed values."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 10_000  # lines are not broken
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _with_datasets(folder: Path) -> tuple[Path, Any]:
    for file in sorted(folder.glob("*.yaml")):
        document = _editor().load(file.read_text("utf-8"))
        if "datasets" in (document or {}):
            return file, document
    raise UserError(f"No file of {folder} has a section `datasets`.")


def _set(entry: Any, sha256: str) -> None:
    if "sha256" in entry:
        entry["sha256"] = sha256
        return
    keys = list(entry)
    after = next((key for key in BEFORE if key in keys), keys[-1])
    entry.insert(keys.index(after), "sha256", sha256)
