"""A user's own classes: a module on Python's path, and entries in params/."""

import sys
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
import yaml
from support import PARAMS

from rtm.config import Config, load


def install(folder: Path, module: str, text: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a module that can be imported until the end of the test; return its file."""
    (folder / f"{module}.py").write_text(text, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, module, None)  # it is forgotten when the test ends
    del sys.modules[module]
    return folder / f"{module}.py"


def load_with(folder: Path, **sections: dict[str, Any]) -> Config:
    """The smoke scale of a copy of params/ with further entries."""
    params = Path(copytree(PARAMS, folder / "params", dirs_exist_ok=True))
    for section, entries in sections.items():
        content = yaml.safe_load((PARAMS / f"{section}.yaml").read_text("utf-8"))
        content[section] |= entries
        (params / f"{section}.yaml").write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    return load("smoke", params)


def forget(module: str) -> None:
    """Make the next import run the module again."""
    sys.modules.pop(module, None)
