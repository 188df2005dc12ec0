"""A sealed file shows any change, and the save before the last one stays."""

import errno
import os
from pathlib import Path

import pytest

from rtm.core.errors import UserError
from rtm.core.files import write_text
from rtm.core.sealed import keep_as, sealed, unsealed


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("has_links", [True, False])
def test_the_old_content_keeps_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    last = tmp_path / "state.pt"
    before = tmp_path / "state.prev.pt"
    for content in ("one", "two", "three"):
        if last.exists():
            keep_as(last, before)
        write_text(last, content)
    assert (before.read_text("utf-8"), last.read_text("utf-8")) == ("two", "three")
    assert names(tmp_path) == ["state.prev.pt", "state.pt"]


def test_a_second_name_of_one_content_is_nothing_new(tmp_path: Path) -> None:
    write_text(tmp_path / "one", "text")
    for _ in range(2):
        keep_as(tmp_path / "one", tmp_path / "other")
    assert names(tmp_path) == ["one", "other"]
    assert (tmp_path / "other").samefile(tmp_path / "one")


def test_every_changed_byte_of_a_sealed_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with sealed(path, {"step": 3}) as file:
        file.write(b"weights\n")
    with unsealed(path) as (header, file):
        assert (header, file.read()) == ({"step": 3}, b"weights\n")
    content = path.read_bytes()
    changed = [content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] for at in range(len(content))]
    for damaged in (*changed, content[:-1], content + b"\n", b""):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="x is damaged or of another kind"), unsealed(path):
            pass
