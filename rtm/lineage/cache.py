"""The bytes of results in DVC's cache and remote, by their md5."""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from rtm.core.files import atomic, digest, json_digest, temporary_of, write_json
from rtm.core.readers import UNREADABLE
from rtm.lineage.history import committed_versions
from rtm.lineage.receipts import JSON
from rtm.stages.base import Job

LINKED = 1 << 20  # bytes; a file of at least so many shares its space with its object in the cache
SECONDS = 180.0  # other results than trainings are kept if they took at least this long
KEPT = ("train", "reference", "gallery", "evaluate")


@cache
def folder() -> Path | None:
    """DVC's cache; None outside of a DVC repository."""
    if not Path(".dvc/config").exists():
        return None
    chosen = _config()["cache"].get("dir")
    return Path(chosen or ".dvc/cache").absolute()


def remotes() -> dict[str, str]:
    """The addresses of the remotes in .dvc/config, which every clone has, by name."""
    listed = _config().load_one("repo").get("remote", {})
    return {name: str(remote["url"]) for name, remote in listed.items()}


def default_remote() -> str:
    return str(_config()["core"].get("remote", ""))


def _config() -> Any:
    from dvc.config import Config

    return Config(str(Path(".dvc").absolute()), validate=False)


def keep(job: Job) -> None:
    """Put the files of a job into the cache, if they cost much. A cache that fails fails no job."""
    with suppress(*UNREADABLE):
        receipt = json.loads(job.receipt.read_text("utf-8"))
        is_long = float(receipt["made"].get("seconds") or 0) >= SECONDS
        if folder() is None or not (job.stage.name == "train" or (job.stage.name in KEPT and is_long)):
            return
        for name, recorded in receipt["outputs"].items():
            if not holds(recorded) and digest(name, "md5") == recorded["md5"]:
                put(Path(name), recorded)


def receipts() -> Path:
    """Where receipts are kept that were replaced on this machine: perhaps they were never committed."""
    cached = folder()
    assert cached is not None
    return cached / "receipts"


def remember(receipt: JSON | None) -> None:
    """Keep a receipt that is about to be replaced."""
    if receipt and folder():
        with suppress(OSError):
            write_json(receipts() / f"{json_digest(receipt)}.json", receipt)


def object_of(recorded: JSON) -> Path:
    cached = folder()
    md5 = str(recorded["md5"])
    assert cached is not None
    return cached / "files/md5" / md5[:2] / md5[2:]


def holds(recorded: JSON) -> bool:
    """Whether an object of the right size is in the cache. Its bytes are checked before they are used."""
    with suppress(OSError):
        return bool(object_of(recorded).stat().st_size == recorded["size"])
    return False


def is_sound(recorded: JSON) -> bool:
    """Whether the bytes of an object have the md5 in its name. A damaged object is deleted, as in DVC."""
    if not holds(recorded):
        return False
    path = object_of(recorded)
    if digest(path, "md5") == recorded["md5"]:
        return True
    print(f"{path} is damaged: it is deleted, and not used.", file=sys.stderr)
    path.unlink(missing_ok=True)
    return False


def put(source: Path, recorded: JSON) -> None:
    """Put a file into the cache."""
    place(source, object_of(recorded), protected=True)


def put_committed(path: Path, recorded: JSON) -> bool:
    """Put a file that git has into the cache; whether git has it."""
    content = committed(path, recorded)
    if content is None:
        return False
    with atomic(object_of(recorded)) as file:
        file.write(content)
    return True


def committed(path: Path, recorded: JSON) -> bytes | None:
    """The bytes of a file that git keeps, from any commit."""
    versions = committed_versions(path.as_posix()) if recorded["size"] < LINKED else []
    return next((version for version in versions if hashlib.md5(version).hexdigest() == recorded["md5"]), None)


def place(source: Path, target: Path, protected: bool = False) -> None:
    """Put the bytes of `source` at `target`, too, completely or not at all.

    A large file shares its space with the source, by a reflink or else a hard link; if neither works, it is copied.
    Both names of a hard link are write-protected, as in DVC. Jobs replace files and never write into old ones.
    """
    from dvc_objects.fs import generic
    from dvc_objects.fs.local import LocalFileSystem

    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_of(target)
    local = LocalFileSystem()
    real = source.resolve()
    try:
        generic.transfer(local, str(real), local, str(temporary), hardlink=real.stat().st_size >= LINKED)
        with suppress(OSError):  # in a shared cache, the object may belong to another user, who has protected it
            temporary.chmod(0o444 if protected or temporary.samefile(real) else 0o644)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


class Remote:
    """A remote of DVC: a folder, S3, SSH. If it does not answer, it is not asked again."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.is_away = False

    def has(self, recorded: JSON) -> bool:
        def is_there(store: Any) -> bool:
            try:
                store.fs.info(store.oid_to_path(recorded["md5"]))
            except FileNotFoundError as error:
                if isinstance(error.__cause__, OSError):  # a web server that does not answer has no other error
                    raise error.__cause__ from None
                return False
            return True

        return bool(self._ask(is_there))

    def get(self, recorded: JSON) -> None:
        """Fetch an object into the cache, if it is there; the caller checks its bytes."""
        target = object_of(recorded)
        temporary = temporary_of(target)
        target.parent.mkdir(parents=True, exist_ok=True)

        def fetch(store: Any) -> None:
            store.fs.get_file(store.oid_to_path(recorded["md5"]), str(temporary))
            temporary.chmod(0o444)
            temporary.replace(target)

        self._ask(fetch)
        temporary.unlink(missing_ok=True)

    def put(self, path: Path, recorded: JSON) -> None:
        """Send a file, if it is not there; `has` tells whether it arrived."""
        from dvc_objects.fs.local import LocalFileSystem

        def send(store: Any) -> None:
            store.add(str(path.absolute()), LocalFileSystem(), recorded["md5"])

        self._ask(send)

    def _ask(self, question: Callable[[Any], bool | None]) -> bool | None:
        if self.is_away:
            return None
        try:
            from dvc.repo import Repo

            return question(Repo().cloud.get_remote_odb(self.name))
        except Exception as error:
            self.is_away = True
            print(f"The DVC remote is not asked for results: {type(error).__name__} {error}", file=sys.stderr)
        return None


@cache
def remote(name: str | None) -> Remote:
    """The remote with this name; None is DVC's default."""
    return Remote(name)
