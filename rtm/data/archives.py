"""The files of a folder, zip, tar or tar.gz, read one at a time and never unpacked to disk.

Nothing in an archive is trusted. A path that leads out of the archive, a link, a device, or a size that no dataset has
ends the reading with an error. Every checksum of the format is compared: for zip when each file is read, for gzip
before the first file.
"""

import gzip
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

from rtm.core.errors import UserError, printable
from rtm.core.readers import UNREADABLE
from rtm.data.pictures import files_of

LARGEST = 1 << 28  # bytes of one file; CIFAR-10's largest has 2^25
WHOLE = 1 << 37  # bytes of all files; CelebA-HQ at 1024 px has less than 2^36
MOST = 1 << 20  # files
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# exceptions that the readers raise for a damaged file, besides UserError
DAMAGED = (*UNREADABLE, tarfile.TarError)
_ENCRYPTED = 0x1
_FILE_TYPES = (0o0, 0o4, 0o10)  # unknown, folder, file
_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
Stream = IO[bytes] | gzip.GzipFile


@dataclass(frozen=True)
class Member:
    """A regular file of an archive."""

    path: PurePosixPath
    size: int
    entry: Any  # by which the reader finds it


class Reader(Protocol):
    """An archive of one format."""

    def entries(self) -> Iterator[Member]: ...

    def read(self, member: Member) -> bytes: ...


class Archive:
    """An archive, opened with `opened`. Its members come in the order that is fastest to read."""

    def __init__(self, source: Path, reader: Reader) -> None:
        self.source = source
        self._reader = reader

    def members(self) -> list[Member]:
        """The regular files. All of them are checked before the first is read."""
        members: dict[PurePosixPath, Member] = {}
        whole = 0
        with _sentences(self.source):
            for number, member in enumerate(self._reader.entries()):
                whole += member.size
                if member.path.is_absolute() or ".." in member.path.parts:
                    raise _refused(self.source, f"{member.path} leads out of it")
                if not 0 <= member.size <= LARGEST or whole > WHOLE:
                    raise _refused(self.source, f"{member.path} would unpack to {whole} bytes")
                if number >= MOST:
                    raise _refused(self.source, f"it holds more than {MOST:,} files")
                if member.path in members:
                    raise _refused(self.source, f"{member.path} is in it twice")
                if not _hidden(member.path):
                    members[member.path] = member
        return list(members.values())

    def read(self, member: Member) -> bytes:
        with _sentences(self.source):
            content = self._reader.read(member)
            if len(content) != member.size:
                raise EOFError(f"{member.path} has {len(content)} bytes, not {member.size}")
            return content


@dataclass
class _Folder:
    source: Path

    def entries(self) -> Iterator[Member]:
        for path in files_of(self.source):
            name = path.relative_to(self.source).as_posix()
            yield Member(PurePosixPath(name), path.stat().st_size, path)

    def read(self, member: Member) -> bytes:
        path: Path = member.entry
        return path.read_bytes()


@dataclass
class _Zip:
    source: Path
    archive: zipfile.ZipFile

    def entries(self) -> Iterator[Member]:
        for info in self.archive.infolist():
            name = info.filename
            if (info.external_attr >> 28) not in _FILE_TYPES:
                raise _refused(self.source, f"{name} is a link, a device or a sparse file")
            if info.flag_bits & _ENCRYPTED:
                raise _refused(self.source, f"{name} needs a password")
            if info.compress_type not in METHODS:
                raise _refused(self.source, f"{name} is compressed by another method than deflate")
            if not info.is_dir():
                yield Member(PurePosixPath(name), info.file_size, info)

    def read(self, member: Member) -> bytes:
        with self.archive.open(member.entry) as file:
            return file.read(member.size + 1)  # the bound limits how much zipfile unpacks


class _Tar:
    """A tar file, whose end is checked before the first file is read."""

    def __init__(self, source: Path, stream: Stream) -> None:
        self.source = source
        self.stream = stream
        self.archive = tarfile.open(fileobj=stream, mode="r:", errorlevel=2)  # noqa: SIM115  (the stream is closed)

    def entries(self) -> Iterator[Member]:
        for entry in self.archive:
            regular = entry.isfile() and not entry.issparse()
            if not (regular or entry.isdir()):
                raise _refused(self.source, f"{entry.name} is a link, a device or a sparse file")
            if regular:
                yield Member(PurePosixPath(entry.name), entry.size, entry)
        # tarfile treats a damaged header as the end and does not read on to gzip's checksum, so check both here
        self.stream.seek(self.archive.offset)
        end = self.stream.read(tarfile.BLOCKSIZE)
        if end != bytes(tarfile.BLOCKSIZE):
            raise tarfile.ReadError("a header is damaged, or the end is missing")
        while self.stream.read(_CHUNK):
            if self.stream.tell() > WHOLE:
                raise tarfile.ReadError("it does not end")

    def read(self, member: Member) -> bytes:
        file = self.archive.extractfile(member.entry)
        assert file is not None
        return file.read()


@contextmanager
def opened(source: Path) -> Iterator[Archive]:
    """Open a folder or archive; its content decides the type, not its name."""
    if source.is_dir():
        yield Archive(source, _Folder(source))
    elif zipfile.is_zipfile(source):
        with _sentences(source):
            archive = zipfile.ZipFile(source)
        with archive:
            yield Archive(source, _Zip(source, archive))
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
        return _Tar(source, stream)
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


def _refused(source: Path, reason: str) -> UserError:
    return UserError(f"{source} is refused: {printable(reason)}; get the original archive.")


def _hidden(path: PurePosixPath) -> bool:
    """Whether it is a hidden file; file managers leave such files in archives."""
    return any(part.startswith((".", "__MACOSX")) for part in path.parts)
