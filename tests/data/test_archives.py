"""An archive is read, never trusted."""

import io
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from support.archives import flat, noise, write_folder, write_tar, write_zip

from rtm.core.errors import UserError
from rtm.data.archives import opened


def listed(source: Path) -> dict[str, bytes]:
    with opened(source) as archive:
        return {str(member.path): archive.read(member) for member in archive.members()}


def info(name: str, kind: bytes = tarfile.REGTYPE, **changes: object) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for key, value in changes.items():
        setattr(made, key, value)
    return made


def test_folder_zip_and_tar_hold_the_same_and_hide_the_same(tmp_path: Path) -> None:
    files = {"a/1.png": b"one", "a/b/2.png": b"two"}
    junk = {"__MACOSX/a/._1.png": b"-", "a/.DS_Store": b"-"}
    sources = [
        write_folder(tmp_path / "folder", files | junk),
        write_zip(tmp_path / "x.zip", files | junk),
        write_tar(tmp_path / "x.tar", files | junk, info("empty", tarfile.DIRTYPE)),
        write_tar(tmp_path / "named_otherwise.gz", files | junk),
    ]
    assert all(listed(source) == files for source in sources)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (info("../escaped"), r"\.\./escaped leads out of it"),
        (info("a/../../escaped"), "leads out of it"),
        (info("/etc/escaped"), "/etc/escaped leads out of it"),
        (info("link", tarfile.SYMTYPE, linkname="/etc/passwd"), "link is a link, a device or a sparse file"),
        (info("hard", tarfile.LNKTYPE, linkname="../x"), "hard is a link, a device or a sparse file"),
        (info("dev", tarfile.CHRTYPE, devmajor=1, devminor=3), "dev is a link, a device or a sparse file"),
        (info("pipe", tarfile.FIFOTYPE), "pipe is a link, a device or a sparse file"),
    ],
    ids=lambda value: value.name if isinstance(value, tarfile.TarInfo) else "",
)
def test_a_tar_that_reaches_out_is_refused(tmp_path: Path, entry: tarfile.TarInfo, reason: str) -> None:
    (tmp_path / "in").mkdir()
    source = write_tar(tmp_path / "in/x.tar", {}, entry)
    with pytest.raises(UserError, match=f"x.tar is refused: .*{reason}"):
        listed(source)
    assert [path.name for path in tmp_path.rglob("*")] == ["in", "x.tar"]


def test_a_zip_that_reaches_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="leads out of it"):
        listed(write_zip(tmp_path / "x.zip", {"../escaped.png": b"-"}))
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(UserError, match="link is a link, a device or a sparse file"):
        listed(tmp_path / "link.zip")


def test_a_zip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = write_zip(tmp_path / "bomb.zip", {"bomb.png": bytes((1 << 24) + 1)})
    assert bomb.stat().st_size < 20_000
    listed(bomb)
    monkeypatch.setattr("rtm.data.archives.LARGEST", 1 << 24)
    with pytest.raises(UserError, match=r"bomb\.png would unpack to 16777217 bytes"):
        listed(bomb)


def test_a_zip_that_lies_about_sizes_is_damaged(tmp_path: Path) -> None:
    """The directory says 10 bytes; the content inflates to a million."""
    path = write_zip(tmp_path / "lies.zip", {"a.png": bytes(1_000_000)})
    content = path.read_bytes()
    path.write_bytes(content.replace(struct.pack("<I", 1_000_000), struct.pack("<I", 10)))
    with pytest.raises(UserError, match=r"lies\.zip is damaged \(Bad CRC"):
        listed(path)


def test_a_tar_bomb_is_refused_before_it_is_read(tmp_path: Path) -> None:
    header = info("bomb.png", size=1 << 40).tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "bomb.tar").write_bytes(header)
    with pytest.raises(UserError, match=r"bomb\.png would unpack to 1099511627776 bytes"):
        listed(tmp_path / "bomb.tar")


def test_many_files_that_are_too_much_together_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtm.data.archives.WHOLE", 1000)
    with pytest.raises(UserError, match="would unpack to 1100 bytes"):
        listed(write_zip(tmp_path / "x.zip", {f"{number}.png": bytes(100) for number in range(20)}))


def test_a_file_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a\.png is in it twice"):
        listed(write_tar(tmp_path / "x.tar", {"a.png": b"1", "./a.png": b"2"}))


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
def test_a_truncated_archive_is_one_sentence(tmp_path: Path, name: str) -> None:
    files = {f"{number}.png": noise(20_000, seed=number).tobytes() for number in range(3)}
    source = write_zip(tmp_path / name, files) if name == "x.zip" else write_tar(tmp_path / name, files)
    source.write_bytes(source.read_bytes()[:35_000])
    with pytest.raises(UserError, match="get it again"):
        listed(source)


def test_a_flipped_bit_in_a_zip_is_found(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "x.zip", {"a.png": noise(5_000).tobytes()})
    content = bytearray(source.read_bytes())
    content[2_000] ^= 1
    source.write_bytes(content)
    with pytest.raises(UserError, match="is damaged"):
        listed(source)


def test_an_encrypted_zip_and_a_web_page_are_refused(tmp_path: Path) -> None:
    source = write_zip(tmp_path / "x.zip", {"a.png": b"content"})
    content = bytearray(source.read_bytes())
    content[content.index(b"PK\x01\x02") + 8] |= 1
    source.write_bytes(content)
    with pytest.raises(UserError, match="needs a password"):
        listed(source)
    (tmp_path / "page.zip").write_bytes(b"<html>sign in</html>")
    with pytest.raises(UserError, match=r"page\.zip is neither a folder nor a whole zip, tar or tar\.gz"):
        listed(tmp_path / "page.zip")


def test_the_end_of_gzip_is_read_before_the_first_file(tmp_path: Path) -> None:
    source = write_tar(tmp_path / "x.tar.gz", {"a.png": noise(5_000).tobytes()})
    content = source.read_bytes()
    for damaged in (content[:-5] + b"\0" + content[-4:], content[:-1] + b"\1", content[:-8], content + b"garbage"):
        source.write_bytes(damaged)
        with pytest.raises(UserError, match=r"x\.tar\.gz is damaged"), opened(source) as archive:
            archive.members()


def test_a_damaged_header_is_not_the_end_of_a_tar(tmp_path: Path) -> None:
    source = write_tar(tmp_path / "x.tar", {"a.png": bytes(100), "b.png": bytes(100)})
    content = bytearray(source.read_bytes())
    content[content.index(b"b.png")] ^= 1
    source.write_bytes(content)
    with pytest.raises(UserError, match="a header is damaged, or the end is missing"):
        listed(source)


def test_headers_cannot_ask_for_more_than_a_header_has(tmp_path: Path) -> None:
    """An extended header of 2^40 bytes, one of negative size, and ten thousand headers in a row."""
    for size in (1 << 40, -1024):
        header = info("pax", tarfile.XHDTYPE, size=size).tobuf(tarfile.GNU_FORMAT)
        (tmp_path / "x.tar").write_bytes(header + bytes(2048))
        with pytest.raises(UserError, match="neither a folder nor a whole zip"):
            listed(tmp_path / "x.tar")
    header = info("pax", tarfile.XHDTYPE).tobuf(tarfile.GNU_FORMAT)
    (tmp_path / "x.tar").write_bytes(header * 10_000)
    with pytest.raises(UserError, match="neither a folder nor a whole zip"):
        listed(tmp_path / "x.tar")
    (tmp_path / "x.tar").write_bytes(info("a.png", size=-1024).tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with pytest.raises(UserError, match=r"a\.png would unpack to -1024 bytes"):
        listed(tmp_path / "x.tar")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_methods_of_zip_are_refused(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        archive.writestr("a.png", b"content")
    with pytest.raises(UserError, match="compressed by another method than deflate"):
        listed(tmp_path / "x.zip")


def test_a_zip_cannot_unpack_more_than_it_declares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The directory says 10 bytes; the data would inflate to 64 MB."""
    path = write_zip(tmp_path / "lies.zip", {"a.png": bytes(1 << 26)})
    path.write_bytes(path.read_bytes().replace(struct.pack("<I", 1 << 26), struct.pack("<I", 10)))
    tracemalloc.start()
    with pytest.raises(UserError, match=r"lies\.zip is damaged"):
        listed(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24


def test_reading_a_compressed_tar_goes_from_front_to_back(tmp_path: Path) -> None:
    names = [f"{number:03}.png" for number in reversed(range(20))]
    with opened(write_tar(tmp_path / "x.tar.gz", {name: flat(4, 0) for name in names})) as archive:
        assert [member.path.name for member in archive.members()] == names
        assert all(io.BytesIO(archive.read(member)).read(4) == b"\x89PNG" for member in archive.members())
