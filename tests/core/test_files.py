"""Files are complete or absent; an unreadable file gives an error of one sentence."""

import errno
import os
import stat
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rtm.core.errors import UserError
from rtm.core.files import (
    LEFT_BEHIND,
    UNREADABLE,
    atomic,
    atomic_folder,
    digest_of_all,
    files_below,
    json_digest,
    keep_as,
    matches,
    read_json,
    read_numbers,
    reading,
    room,
    sealed,
    unprotect,
    unsealed,
    write_json,
    write_text,
)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# writing


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "new/x", "old")
    with pytest.raises(KeyError), atomic(tmp_path / "new/x", "w") as file:
        file.write("half of the n")
        raise KeyError
    assert names(tmp_path / "new") == ["x"] and (tmp_path / "new/x").read_text() == "old"


def test_no_two_writers_share_a_temporary_name(tmp_path: Path) -> None:
    """Processes on two nodes can have the same number."""
    with atomic(tmp_path / "x", "w") as one, atomic(tmp_path / "x", "w") as other:
        assert one.name != other.name
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("has_links", [True, False])
def test_the_old_content_keeps_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    if not has_links:
        monkeypatch.setattr(os, "link", refuse)
    last, before = tmp_path / "state.pt", tmp_path / "state.prev.pt"
    for content in ("one", "two", "three"):
        if last.exists():
            keep_as(last, before)
        write_text(last, content)
    assert (before.read_text(), last.read_text()) == ("two", "three")
    assert names(tmp_path) == ["state.prev.pt", "state.pt"]


def test_a_second_name_of_one_content_is_nothing_new(tmp_path: Path) -> None:
    write_text(tmp_path / "one", "text")
    for _ in range(2):
        keep_as(tmp_path / "one", tmp_path / "other")
    assert names(tmp_path) == ["one", "other"] and (tmp_path / "other").samefile(tmp_path / "one")


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    for content in ("one", "two"):
        with atomic_folder(tmp_path / "x") as folder:
            write_text(folder / content, content)
    with pytest.raises(KeyError), atomic_folder(tmp_path / "x") as folder:
        write_text(folder / "three", "three")
        raise KeyError
    assert names(tmp_path) == ["x"] and names(tmp_path / "x") == ["two"]


def test_a_folder_that_a_killed_process_left_goes_after_a_day(tmp_path: Path) -> None:
    """A younger folder may belong to a process that still writes."""
    for name, age in (
        (".x.host.1.tmp", LEFT_BEHIND + 60),
        (".x.host.2.tmp", 60.0),
        (".y.host.3.tmp", LEFT_BEHIND + 60),
    ):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with atomic_folder(tmp_path / "x"):
        pass
    assert names(tmp_path) == [".x.host.2.tmp", ".y.host.3.tmp", "x"]


def test_a_full_disk_is_a_sentence_and_other_errors_stay(tmp_path: Path) -> None:
    with (
        pytest.raises(UserError, match=r"disk of .*absent is full; free 1e\+15 GB there"),
        room(tmp_path / "absent", 10**24),
    ):
        pass
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(UserError, match="free some space there and run this again"), room(tmp_path, 0):
            raise OSError(number, "full")
    with pytest.raises(FileNotFoundError), room(tmp_path, 0):
        raise FileNotFoundError(errno.ENOENT, "gone")


def test_a_write_protected_link_gets_bytes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached, linked = tmp_path / "cached", tmp_path / "linked"
    cached.write_text("weights")
    cached.chmod(0o444)
    linked.hardlink_to(cached)
    monkeypatch.setattr(os, "access", lambda path, mode: bool(Path(path).stat().st_mode & stat.S_IWUSR))  # for root
    unprotect(linked)
    assert os.access(linked, os.W_OK) and not os.access(cached, os.W_OK)
    assert linked.read_text() == "weights" and linked.stat().st_mtime_ns == cached.stat().st_mtime_ns


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    for name in ("builtins.open", "pathlib.Path.unlink"):
        monkeypatch.setattr(name, refuse)
    with pytest.raises(
        UserError, match=r"x\.txt cannot be written \(Read-only file system\); make its folder writable"
    ):
        write_text(tmp_path / "x.txt", "x")


# reading


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


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"{", Any),
        (b"\xff", Any),
        (b"[1]", dict[str, int]),
        (b'{"a": "1"}', dict[str, int]),  # a text is not a number
        (b'{"a": 1.5}', dict[str, int]),
        (b'{"a": "x\\u001b[2J"}', dict[str, int]),
    ],
)
def test_json_of_another_kind_is_one_sentence(tmp_path: Path, content: bytes, kind: Any) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.json is damaged or of another kind \(.*\); bring it back") as error:
        read_json(path, kind)
    assert str(error.value).isprintable()
    with pytest.raises(UserError, match=r"\); ask for it\.$"):
        read_json(path, kind, "ask for it")


def test_json_that_is_not_here_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"make it first with `snakemake --cores all -- '.*/a b\.json'`"):
        read_json(tmp_path / "a b.json")


def test_a_value_is_of_a_kind_or_not() -> None:
    assert matches({"a": 1}, dict[str, int]) and not matches({"a": "1"}, dict[str, int]) and not matches([], dict)


def test_the_order_of_keys_is_nothing_and_what_is_no_number_is_refused(tmp_path: Path) -> None:
    one, other = {"b": [1, 2], "a": {"d": 1, "c": None}}, {"a": {"c": None, "d": 1}, "b": [1, 2]}
    assert json_digest(one) == json_digest(other) != json_digest({**one, "b": [2, 1]})
    write_json(tmp_path / "one", one)
    write_json(tmp_path / "other", other)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()
    with pytest.raises(ValueError, match="nan"):
        write_json(tmp_path / "one", {"a": float("nan")})
    assert read_json(tmp_path / "one") == one


def test_numbers_are_read_and_an_empty_cell_is_left_out(tmp_path: Path) -> None:
    write_text(tmp_path / "x.csv", "step,loss,fid\n1,0.5,\n2,1e-3,7\n")
    assert read_numbers(tmp_path / "x.csv") == [{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.001, "fid": 7}]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "loss\n1\n",
        "step,loss,loss\n1,2,3\n",
        "step,loss\n1\n",
        "step,loss\n1,nan\n",
        "step,loss\n,2\n",
        "step\nx\n",
    ],
)
def test_rows_that_are_no_numbers_are_one_sentence(tmp_path: Path, text: str) -> None:
    write_text(tmp_path / "x.csv", text)
    with pytest.raises(UserError, match=r"x\.csv is damaged or of another kind"):
        read_numbers(tmp_path / "x.csv")


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_a_reader_raises_becomes_one_sentence(kind: type[Exception]) -> None:
    sentence = r"^a\\nb (cannot be read|is damaged.*) \(.*\); get it again\.$"
    with pytest.raises(UserError, match=sentence) as error, reading(Path("a\nb"), "get it again"):
        raise kind("x\n\x1b")
    assert str(error.value).isprintable()


def test_a_broken_header_of_an_array_is_one_sentence(tmp_path: Path) -> None:
    """numpy's parser for headers of Python 2 raises an unusual kind of error."""
    header = b"{'descr': ('|u1',\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(UserError, match=r"x\.npy is damaged"), reading(tmp_path / "x.npy", "get it again"):
        np.load(tmp_path / "x.npy")


# folders


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
