"""The library that replaces the driver is made once, and a message names a missing folder or compiler."""

import os
from pathlib import Path

import pytest

from rtm.core.errors import UserError
from rtm.plan.driver import preloaded


def test_a_folder_or_compiler_that_is_missing_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="see whether its folder can be written"), preloaded(tmp_path / "file"):
        pass
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs a C compiler"), preloaded(tmp_path):
        pass


@pytest.mark.parametrize("before", [None, "libother.so"])
def test_the_library_is_made_once_and_preloaded_in_the_block_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    if before:
        monkeypatch.setenv("LD_PRELOAD", before)
    with pytest.raises(KeyError), preloaded(tmp_path / "driver"):
        assert os.environ["LD_PRELOAD"] == str(tmp_path / "driver/libcuda.so.1")
        raise KeyError
    assert os.environ.get("LD_PRELOAD") == before
    monkeypatch.setenv("PATH", "")  # without a compiler
    with preloaded(tmp_path / "driver"):
        assert [path.name for path in (tmp_path / "driver").iterdir()] == ["libcuda.so.1"]
