"""Find unneeded results of the store: no receipt and no file of DVC names them in any branch, any tag or the working
tree."""

import json
import re
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from rtm.core.errors import UserError
from rtm.core.files import UNREADABLE
from rtm.lineage.store import Entry, Shelf

NAMING = re.compile(r"(^|/)(lineage/(?!code/).+\.json|dvc\.lock|[^/]+\.dvc)$")  # files that name objects
MD5 = re.compile(r"(?<![0-9a-f])[0-9a-f]{32}(?:\.dir)?(?![0-9a-f])")


def needed(shelf: Shelf) -> set[str]:
    """The md5s that are named in the tip of any branch, tag or stash, or in the working tree."""
    texts = [*_committed(), *_present()]
    named = {md5 for text in texts for md5 in MD5.findall(text)}
    return named | {md5 for name in named if name.endswith(".dir") for md5 in _below(shelf, name)}


def unneeded(shelf: Shelf, entries: Iterable[Entry]) -> list[Entry]:
    """The entries of which at least one file is named nowhere; a receipt names all files of its result."""
    wanted = needed(shelf)
    return [entry for entry in entries if not entry.md5s <= wanted]


def remove(shelf: Shelf, entries: Iterable[Entry], force: bool = False) -> int:
    """Delete entries, and their objects if nothing else needs them. Return the number of freed bytes.

    With `force`, objects are deleted even if a receipt needs them, but not if another entry has them.
    """
    going = list(entries)
    for entry in going:
        (shelf.index / entry.file).unlink(missing_ok=True)
    staying = shelf.entries()
    wanted = {md5 for entry in staying for md5 in entry.md5s} | (set() if force else needed(shelf))
    objects = {shelf.object(md5) for entry in going for md5 in entry.md5s - wanted}
    here = [path for path in objects if path.exists()]
    freed = sum(path.stat().st_size for path in here)
    used = {entry.code for entry in staying}
    for path in (*here, *(path for path in shelf.code.glob("*.json") if path.stem not in used)):
        path.unlink(missing_ok=True)
    return freed


def _committed() -> list[str]:
    """The lines of all files that name objects, at the tip of every branch and tag."""
    tips = {line for line in [*_git("for-each-ref", "--format=%(objectname)"), *_git("rev-parse", "HEAD")] if line}
    blobs = {
        line.split("\t")[0].split()[2]
        for tip in sorted(tips)
        for line in _git("ls-tree", "-r", "--full-tree", tip)
        if NAMING.search(line.split("\t")[1])
    }
    return _git("cat-file", "--batch", given="\n".join(sorted(blobs)) + "\n") if blobs else []


def _git(*words: str, given: str | None = None) -> list[str]:
    """The lines that git prints. If git fails, it is an error, because then nothing may be removed."""
    try:
        done = subprocess.run(["git", *words], input=given, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"git cannot say what the branches need ({error}), so nothing is removed.") from None
    return done.stdout.splitlines()


def _present() -> list[str]:
    folders = [path for pattern in ("lineage", "*/lineage") for path in Path().glob(pattern)]
    receipts = [path for folder in folders for path in folder.rglob("*.json") if path.parent.name != "code"]
    return [path.read_text() for path in (*receipts, *Path().glob("*.dvc"), *Path().glob("dvc.lock")) if path.is_file()]


def _below(shelf: Shelf, folder: str) -> list[str]:
    """The files of a folder that DVC keeps as one object."""
    with suppress(*UNREADABLE):
        return [str(each["md5"]) for each in json.loads(shelf.object(folder).read_text())]
    return []
