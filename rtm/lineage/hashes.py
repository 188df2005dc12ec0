"""md5 and size of files. They are remembered by size and time, so that a large file is read once."""

from contextlib import suppress
from pathlib import Path
from typing import Literal

from rtm.core.errors import UserError
from rtm.core.files import digest, write_json
from rtm.core.readers import read_json
from rtm.lineage.receipts import JSON

HASHES = Path(".snakemake/rtm/md5.json")


class Hashes:
    def __init__(self) -> None:
        self.known: dict[str, JSON] = {}
        self.new = False
        with suppress(UserError):  # a damaged file counts as empty
            self.known = read_json(HASHES, dict[str, dict[Literal["key", "md5"], str]])

    def described(self, path: Path, like: JSON | None = None) -> JSON:
        stat = path.stat()
        if like is not None and stat.st_size != like["size"]:
            return {"md5": "of another size", "size": stat.st_size}
        key = f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
        found = self.known.get(str(path))
        if not found or found["key"] != key:
            found = self.known[str(path)] = {"key": key, "md5": digest(path, "md5")}
            self.new = True
        return {"md5": found["md5"], "size": stat.st_size}

    def save(self) -> None:
        """Write the file. If another process overwrites it or the disk is full, files are only read once more."""
        if self.new:
            with suppress(OSError):
                write_json(HASHES, self.known)
