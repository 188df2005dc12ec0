"""An archive is read, never trusted."""

import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from support.archives import flat, noise, write_folder, write_tar, write_zip

from rtm.core.errors import UserError
from rtm.data.archives import opened

NOISE = noise(60_000).tobytes()


def contents(source: Path) -> dict[str, bytes]:
    with opened(source) as archive:
        return {str(member.path): archive.read(member) for member in archive.members()}


def refused(source: Path, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        contents(source)


def info(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type = kind
    entry.size = size
    entry.linkname = target
    return entry


def test_folder_zip_and_tar_hold_the_same_and_hide_the_same(tmp_path: Path) -> None:
    files = {"a/1.png": b"one", "a/b/2.png": b"two"}
    hidden = {"__MACOSX/a/._1.png": b"-", "a/.DS_Store": b"-"}
    sources = [
        write_folder(tmp_path / "folder", files | hidden),
        write_zip(tmp_path / "x.zip", files | hidden),
        write_tar(tmp_path / "x.tar", files | hidden, info("empty", tarfile.DIRTYPE)),
        write_tar(tmp_path / "named_otherwise.gz", files | hidden),
    ]
    assert all(contents(source) == files for source in sources)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (info("../escaped"), r"\.\./escaped leads out of it"),
        (info("a/../../escaped"), "leads out of it"),
        (info("/etc/escaped"), "/etc/escaped leads out of it"),
        (info("link", tarfile.SYMTYPE, target="/etc/passwd"), "link is a link, a device or a sparse file"),
        (info("hard", tarfile.LNKTYPE, target="../x"), "hard is a link, a device or a sparse file"),
        (info("dev", tarfile.CHRTYPE), "dev is a link, a device or a sparse file"),
        (info("pipe", tarfile.FIFOTYPE), "pipe is a link, a device or a sparse file"),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else "",
)
def test_a_tar_that_reaches_out_is_refused(tmp_path: Path, entry: tarfile.TarInfo, reason: str) -> None:
    (tmp_path / "in").mkdir()
    refused(write_tar(tmp_path / "in/x.tar", {}, entry), f"x.tar is refused: .*{reason}")
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "x.tar"]


def test_a_zip_that_reaches_out_is_refused(tmp_path: Path) -> None:
    refused(write_zip(tmp_path / "x.zip", {"../escaped.png": b"-"}), "leads out of it")
    link = zipfile.ZipInfo("link")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(link, "/etc/passwd")
    refused(tmp_path / "link.zip", "link is a link, a device or a sparse file")


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = write_zip(tmp_path / "bomb.zip", {"bomb.png": bytes((1 << 24) + 1)})
    contents(bomb)
    (tmp_path / "bomb.tar").write_bytes(info("bomb.png", size=1 << 40).tobuf(tarfile.GNU_FORMAT))
    refused(tmp_path / "bomb.tar", r"bomb\.png would unpack to 1099511627776 bytes")
    monkeypatch.setattr("rtm.data.archives.LARGEST", 1 << 24)
    refused(bomb, r"bomb\.png would unpack to 16777217 bytes")
    monkeypatch.setattr("rtm.data.archives.WHOLE", 1000)
    many = write_zip(tmp_path / "x.zip", {f"{number}.png": bytes(100) for number in range(20)})
    refused(many, "would unpack to 1100 bytes")


def test_a_zip_cannot_unpack_more_than_it_declares(tmp_path: Path) -> None:
    """The directory says 10 bytes; the data would inflate to 64 MB."""
    path = write_zip(tmp_path / "lies.zip", {"a.png": bytes(1 << 26)})
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 1 << 26), struct.pack("<I", 10)))
    tracemalloc.start()
    refused(path, r"lies\.zip is damaged")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    refused(write_tar(tmp_path / "x.tar", {"a.png": b"1", "./a.png": b"2"}), r"a\.png is in it twice")


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
def test_a_truncated_archive_is_one_sentence(tmp_path: Path, name: str) -> None:
    write = write_zip if name == "x.zip" else write_tar
    source = write(tmp_path / name, {"a.png": NOISE})
    source.write_bytes(source.read_bytes()[:35_000])
    refused(source, "get it again")


def test_a_changed_bit_is_found(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "x.zip", {"a.png": NOISE})
    content = bytearray(source.read_bytes())
    content[2_000] ^= 1
    source.write_bytes(content)
    refused(source, "is damaged")
    source = write_tar(tmp_path / "x.tar", {"a.png": bytes(100), "b.png": bytes(100)})
    content = bytearray(source.read_bytes())
    content[content.index(b"b.png")] ^= 1
    source.write_bytes(content)
    refused(source, "a header is damaged, or the end is missing")


def test_a_password_another_method_and_a_web_page_are_refused(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "x.zip", {"a.png": b"content"})
    content = bytearray(source.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    source.write_bytes(content)
    refused(source, "needs a password")
    with zipfile.ZipFile(tmp_path / "y.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a.png", b"content")
    refused(tmp_path / "y.zip", "compressed by another method than deflate")
    (tmp_path / "page.zip").write_bytes(b"<html>sign in</html>")
    refused(tmp_path / "page.zip", r"page\.zip is neither a folder nor a whole zip, tar or tar\.gz")


def test_the_end_of_gzip_is_read_before_the_first_file(tmp_path: Path) -> None:
    source = write_tar(tmp_path / "x.tar.gz", {"a.png": NOISE})
    content = source.read_bytes()
    for damaged in (content[:-5] + b"\0" + content[-4:], content[:-1] + b"\1", content[:-8], content + b"garbage"):
        source.write_bytes(damaged)
        with pytest.raises(UserError, match=r"x\.tar\.gz is damaged"), opened(source) as archive:
            archive.members()


@pytest.mark.parametrize("size", [1 << 40, -1024])
def test_headers_cannot_ask_for_more_than_a_header_has(tmp_path: Path, size: int) -> None:
    header = info("pax", tarfile.XHDTYPE, size).tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "x.tar").write_bytes(header + bytes(2048))
    refused(tmp_path / "x.tar", "neither a folder nor a whole zip")


def test_reading_a_compressed_tar_goes_from_front_to_back(tmp_path: Path) -> None:
    names = [f"{number:03}.png" for number in reversed(range(20))]
    source = write_tar(tmp_path / "x.tar.gz", {name: flat(4, 0) for name in names})
    assert list(contents(source).items()) == [(name, flat(4, 0)) for name in names]


def test_the_images_of_a_folder_may_be_behind_links(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "one.png").write_bytes(b"1")
    source = tmp_path / "source"
    source.mkdir()
    (source / "linked").symlink_to(elsewhere)
    (elsewhere / "round").symlink_to(source)
    with opened(source) as archive:
        assert {str(member.path): archive.read(member) for member in archive.members()} == {"linked/one.png": b"1"}
