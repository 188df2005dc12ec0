"""Files are complete or absent; an unreadable file gives an error of one sentence."""

import errno
import os
import stat
from pathlib import Path

import pytest
from PIL import Image

from rtm.core.errors import UserError
from rtm.core.files import (
    atomic,
    atomic_folder,
    digest_of_all,
    files_below,
    json_digest,
    room,
    unprotect,
    write_json,
    write_text,
)
from rtm.core.readers import read_json


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "new/x", "old")
    with pytest.raises(KeyError), atomic(tmp_path / "new/x", "w") as file:
        file.write("half of the n")
        raise KeyError
    assert names(tmp_path / "new") == ["x"]
    assert (tmp_path / "new/x").read_text("utf-8") == "old"


def test_no_two_writers_share_a_temporary_name(tmp_path: Path) -> None:
    """Processes on two nodes can have the same number."""
    with atomic(tmp_path / "x", "w") as one, atomic(tmp_path / "x", "w") as other:
        assert one.name != other.name
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for content in ("one", "two"):
        with atomic_folder(tmp_path / "x") as folder:
            write_text(folder / content, content)
    with pytest.raises(KeyError), atomic_folder(tmp_path / "x") as folder:
        write_text(folder / "three", "three")
        raise KeyError
    assert names(tmp_path) == ["x"]
    assert names(tmp_path / "x") == ["two"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    for name in (".x.host.1.tmp", ".y.host.2.tmp"):
        (tmp_path / name).mkdir()
    with atomic_folder(tmp_path / "x"):
        pass
    assert names(tmp_path) == [".y.host.2.tmp", "x"]


def test_a_full_disk_is_a_sentence_and_other_errors_stay(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"disk of .*absent is full; free 1e\+15 GB there"),
        room(tmp_path / "absent", 10**24),
    ):
        pass
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(UserError, match="free some space there and run this again"), room(tmp_path, 0):
            raise OSError(number, "full")
    message = r"The disk of .*/elsewhere is full; free some space there and run this again"
    with pytest.raises(UserError, match=message), room(tmp_path, 10), atomic(tmp_path / "elsewhere/x"):
        raise OSError(errno.ENOSPC, "full")
    with pytest.raises(FileNotFoundError), room(tmp_path, 0):
        raise FileNotFoundError(errno.ENOENT, "gone")


def test_a_write_protected_link_gets_bytes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = tmp_path / "cached"
    linked = tmp_path / "linked"
    cached.write_text("weights", "utf-8")
    cached.chmod(0o444)
    linked.hardlink_to(cached)
    monkeypatch.setattr(os, "access", lambda path, mode: bool(Path(path).stat().st_mode & stat.S_IWUSR))  # for root
    unprotect(linked)
    assert os.access(linked, os.W_OK)
    assert not os.access(cached, os.W_OK)
    assert linked.read_text("utf-8") == "weights"
    assert linked.stat().st_mtime_ns == cached.stat().st_mtime_ns


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("builtins.open", "pathlib.Path.unlink"):
        monkeypatch.setattr(name, refuse)
    with pytest.raises(
        UserError, match=r"x\.txt cannot be written \(Read-only file system\); make its folder writable"
    ):
        write_text(tmp_path / "x.txt", "x")


def test_the_order_of_keys_is_nothing_and_what_is_no_number_is_refused(tmp_path: Path) -> None:
    one = {"b": [1, 2], "a": {"d": 1, "c": None}}
    other = {"a": {"c": None, "d": 1}, "b": [1, 2]}
    assert json_digest(one) == json_digest(other) != json_digest({**one, "b": [2, 1]})
    write_json(tmp_path / "one", one)
    write_json(tmp_path / "other", other)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "one", {"a": float("nan")})
    assert read_json(tmp_path / "one") == one


def test_a_folder_has_a_digest_of_names_and_bytes(tmp_path: Path) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    first = digest_of_all(folder)
    (folder / "a.png").rename(folder / "b.png")
    second = digest_of_all(folder)
    (folder / "b.png").write_bytes(b"")
    assert len({first, second, digest_of_all(folder)}) == 3


def test_links_that_go_round_come_to_an_end(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    write_text(tmp_path / "a/b/x", "x")
    (tmp_path / "a/b/up").symlink_to(tmp_path)
    (tmp_path / "a/twin").symlink_to(tmp_path / "a/b")
    (tmp_path / "a/gone").symlink_to(tmp_path / "nowhere")
    assert list(files_below(tmp_path)) == [tmp_path / "a/b/x"]


def test_a_file_has_the_digest_of_its_bytes_and_a_folder_one_whatever_its_place(tmp_path: Path) -> None:
    write_text(tmp_path / "one/a/x", "")
    write_text(tmp_path / "two/a/x", "")
    assert digest_of_all(tmp_path / "one/a/x") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest_of_all(tmp_path / "one") == digest_of_all(tmp_path / "two") != digest_of_all(tmp_path / "one/a")
