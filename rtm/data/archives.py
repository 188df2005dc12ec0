"""The files of a folder, zip, tar or tar.gz, read one at a time and never unpacked to disk.

Nothing in an archive is trusted. A path that leads out of the archive, a link, a device, or a size that no dataset has
ends the reading with an error. Every checksum of the format is compared: for zip when each file is read, for gzip
before the first file.
"""

import gzip
import io
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from rtm.core.errors import UserError, printable
from rtm.core.files import UNREADABLE

LARGEST = 1 << 28  # bytes of one file; CIFAR-10's largest has 2^25
WHOLE = 1 << 37  # bytes of all files; CelebA-HQ at 1024 px has less than 2^36
MOST = 1 << 20  # files
LARGEST_HEADER = 1 << 20  # bytes of a tar's header; long names and extended attributes take some hundred
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# exceptions that the readers raise for a damaged file, besides UserError
DAMAGED = (*UNREADABLE, tarfile.TarError)
_ENCRYPTED = 0x1
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
Stream = IO[bytes] | gzip.GzipFile


@dataclass(frozen=True)
class Member:
    """A regular file of an archive."""

    path: PurePosixPath
    size: int
    entry: Path | zipfile.ZipInfo | tarfile.TarInfo


class Archive:
    """An archive, opened with `opened`. Its members come in the order that is fastest to read."""

    def __init__(self, source: Path, held: "zipfile.ZipFile | _Tar | None") -> None:
        self.source, self._held = source, held

    def members(self) -> list[Member]:
        """The regular files. All of them are checked before the first is read."""
        found: dict[PurePosixPath, Member] = {}
        whole = 0
        with _sentences(self.source):
            for number, member in enumerate(self._entries()):
                if member.path.is_absolute() or ".." in member.path.parts:
                    raise self._refused(f"{member.path} leads out of it")
                whole += member.size
                if not 0 <= member.size <= LARGEST or whole > WHOLE:
                    raise self._refused(f"{member.path} would unpack to {whole} bytes")
                if number >= MOST:
                    raise self._refused(f"it holds more than {MOST:,} files")
                if member.path in found:
                    raise self._refused(f"{member.path} is in it twice")
                if not _hidden(member.path):
                    found[member.path] = member
        return list(found.values())

    def read(self, member: Member) -> bytes:
        with _sentences(self.source):
            content = self._read(member.entry, member.size)
            if len(content) != member.size:
                raise EOFError(f"{member.path} has {len(content)} bytes, not {member.size}")
            return content

    def _read(self, entry: Path | zipfile.ZipInfo | tarfile.TarInfo, size: int) -> bytes:
        if isinstance(entry, Path):
            return entry.read_bytes()
        if isinstance(entry, zipfile.ZipInfo):
            assert isinstance(self._held, zipfile.ZipFile)
            with self._held.open(entry) as file:
                return file.read(size + 1)  # the bound limits how much zipfile unpacks
        assert isinstance(self._held, _Tar)
        return self._held.read(entry)

    def _entries(self) -> Iterator[Member]:
        if self._held is None:
            for path in sorted(self.source.rglob("*")):
                if path.is_file():
                    yield Member(PurePosixPath(path.relative_to(self.source).as_posix()), path.stat().st_size, path)
        elif isinstance(self._held, zipfile.ZipFile):
            for info in self._held.infolist():
                self._refuse_link(info.filename, (info.external_attr >> 28) in (0o0, 0o4, 0o10))  # file or folder
                if info.flag_bits & _ENCRYPTED:
                    raise self._refused(f"{info.filename} needs a password")
                if info.compress_type not in METHODS:
                    raise self._refused(f"{info.filename} is compressed by another method than deflate")
                if not info.is_dir():
                    yield Member(PurePosixPath(info.filename), info.file_size, info)
        else:
            for entry in self._held.entries():
                self._refuse_link(entry.name, (entry.isfile() and not entry.issparse()) or entry.isdir())
                if entry.isfile():
                    yield Member(PurePosixPath(entry.name), entry.size, entry)

    def _refuse_link(self, name: str, regular: bool) -> None:
        if not regular:
            raise self._refused(f"{name} is a link, a device or a sparse file")

    def _refused(self, reason: str) -> UserError:
        return UserError(f"{self.source} is refused: {printable(reason)}; get the original archive.")


class _Tar:
    """A tar file over a stream that limits how much a header can make tarfile read."""

    def __init__(self, stream: Stream) -> None:
        self.stream = _Limited(stream)
        self.tar = tarfile.open(fileobj=self.stream, mode="r:", errorlevel=2)  # noqa: SIM115  (the stream is closed)

    def entries(self) -> Iterator[tarfile.TarInfo]:
        self.stream.limit = LARGEST_HEADER
        yield from self.tar
        # tarfile treats a damaged header as the end and does not read on to gzip's checksum, so check both here
        self.stream.seek(self.tar.offset)
        end = self.stream.read(tarfile.BLOCKSIZE)
        if end != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("a header is damaged, or the end is missing")
        while self.stream.read(_CHUNK):
            if self.stream.tell() > WHOLE:
                raise tarfile.ReadError("it does not end")

    def read(self, entry: tarfile.TarInfo) -> bytes:
        self.stream.limit = LARGEST
        file = self.tar.extractfile(entry)
        assert file is not None
        return file.read()


class _Limited(io.BufferedIOBase):
    """The methods of a file that tarfile uses. A long read is an error, because only a false header asks for it."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.limit = stream, LARGEST_HEADER

    def read(self, size: int | None = None, /) -> bytes:
        if size is None or not 0 <= size <= self.limit:
            raise tarfile.ReadError(f"a header asks for {size} bytes")
        return self.stream.read(size)

    def seek(self, place: int, whence: int = io.SEEK_SET, /) -> int:
        return self.stream.seek(place, whence)

    def tell(self) -> int:
        return self.stream.tell()


@contextmanager
def opened(source: Path) -> Iterator[Archive]:
    """Open a folder or archive; its content decides the type, not its name."""
    if source.is_dir():
        yield Archive(source, None)
    elif zipfile.is_zipfile(source):
        with _sentences(source):
            archive = zipfile.ZipFile(source)
        with archive:
            yield Archive(source, archive)
    else:
        with open(source, "rb") as file, _unpacked(file) as stream:
            yield Archive(source, _opened_tar(source, stream))


@contextmanager
def _unpacked(file: IO[bytes]) -> Iterator[Stream]:
    packed = file.read(len(_GZIP)) == _GZIP
    file.seek(0)
    if packed:
        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked
    else:
        yield file


def _opened_tar(source: Path, stream: Stream) -> _Tar:
    try:
        return _Tar(stream)
    except DAMAGED:
        raise UserError(
            f"{source} is neither a folder nor a whole zip, tar or tar.gz archive; delete it and get it again."
        ) from None


@contextmanager
def _sentences(source: Path) -> Iterator[None]:
    try:
        yield
    except DAMAGED as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{source} is damaged ({printable(reason)}); delete it and get it again.") from None


def _hidden(path: PurePosixPath) -> bool:
    """Whether it is a hidden file; file managers leave such files in archives."""
    return any(part.startswith((".", "__MACOSX")) for part in path.parts)
