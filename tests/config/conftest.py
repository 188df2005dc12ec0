"""A copy of params/ that a test may change."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import PARAMS

from rtm.config import load
from rtm.core.errors import UserError


@pytest.fixture
def params(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PARAMS, tmp_path / "params"))


@pytest.fixture
def refusal(params: Path) -> Callable[[str, str, str], str]:
    """The message after a text in a file of params/ is replaced."""

    def replaced(file: str, text: str, replacement: str) -> str:
        path = params / file
        assert text in path.read_text("utf-8")
        path.write_text(path.read_text("utf-8").replace(text, replacement, 1), "utf-8")
        with pytest.raises(UserError) as error:
            for scale in ("paper", "demo", "desk", "smoke"):
                load(scale, params)
        return str(error.value)

    return replaced
