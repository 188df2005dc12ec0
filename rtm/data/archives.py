"""The files of a folder, zip or tar, read one at a time and never unpacked to disk.

Nothing in an archive is trusted: a path that leads out of it, a link, a device or a size that no dataset has ends the
reading with a sentence.
"""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rtm.core.errors import UserError

LARGEST = 1 << 28  # bytes of one file; CIFAR-10's largest has 2^25
WHOLE = 1 << 37  # bytes of all files; CelebA-HQ at 1024 px has less than 2^36
UNKNOWN_COMPRESSION = NotImplementedError  # what zipfile raises for it
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, UNKNOWN_COMPRESSION)
_ENCRYPTED = 0x1


@dataclass(frozen=True)
class Member:
    """A regular file of an archive."""

    path: PurePosixPath
    size: int
    entry: Path | zipfile.ZipInfo | tarfile.TarInfo


class Archive:
    """Open a source with `opened`; members come in the order in which they are cheapest to read."""

    def __init__(self, source: Path, held: zipfile.ZipFile | tarfile.TarFile | None) -> None:
        self.source, self._held = source, held

    def members(self) -> list[Member]:
        """The regular files, all of them checked before the first is read."""
        found: dict[PurePosixPath, Member] = {}
        whole = 0
        for member in self._entries():
            if member.path.is_absolute() or ".." in member.path.parts:
                raise self._refused(f"{member.path} leads out of it")
            whole += member.size
            if member.size > LARGEST or whole > WHOLE:
                raise self._refused(f"{member.path} would unpack to {whole} bytes")
            if member.path in found:
                raise self._refused(f"{member.path} stands in it twice")
            if not _hidden(member.path):
                found[member.path] = member
        return list(found.values())

    def read(self, member: Member) -> bytes:
        entry = member.entry
        if isinstance(entry, Path):
            return entry.read_bytes()
        if isinstance(entry, zipfile.ZipInfo):
            assert isinstance(self._held, zipfile.ZipFile)
            return self._held.read(entry)  # never more than the size it declares, and checked by its CRC
        assert isinstance(self._held, tarfile.TarFile)
        file = self._held.extractfile(entry)
        assert file is not None
        content = file.read()
        if len(content) != member.size:
            raise tarfile.ReadError(f"{member.path} is cut off")
        return content

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
                if not info.is_dir():
                    yield Member(PurePosixPath(info.filename), info.file_size, info)
        else:
            for entry in self._held:
                self._refuse_link(entry.name, entry.isfile() or entry.isdir())
                if entry.isfile():
                    yield Member(PurePosixPath(entry.name), entry.size, entry)

    def _refuse_link(self, name: str, regular: bool) -> None:
        if not regular:
            raise self._refused(f"{name} is a link or a device")

    def _refused(self, reason: str) -> UserError:
        return UserError(f"{self.source} is not an archive to be trusted: {reason}; get the original.")


@contextmanager
def opened(source: Path) -> Iterator[Archive]:
    """A folder or archive, by what it is and not by what it is called."""
    try:
        if source.is_dir():
            yield Archive(source, None)
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as file:
                yield Archive(source, file)
        elif tarfile.is_tarfile(source):
            with tarfile.open(source, errorlevel=2) as tar:
                yield Archive(source, tar)
        else:
            raise UserError(f"{source} is neither a folder nor a whole zip or tar archive; delete it and get it again.")
    except DAMAGED as error:
        raise UserError(f"{source} is damaged ({error}); delete it and get it again.") from None


def _hidden(path: PurePosixPath) -> bool:
    """What file managers leave in archives."""
    return any(part.startswith((".", "__MACOSX")) for part in path.parts)
