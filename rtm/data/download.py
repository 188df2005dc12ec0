"""Get a file over https, whole or not at all; what arrived of it is kept, and a later try goes on from there.

The part that is here is trusted only if the server sends its last bytes again, and the whole only if its checksums are
right. A server that drops connections, ignores ranges or answers with an error gets a few more tries.
"""

import fcntl
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rtm.core.errors import UserError
from rtm.core.files import digest, room
from rtm.core.progress import progress

CHUNK = 1 << 18
OVERLAP = 1 << 16  # bytes that are asked for again, to see that the part here is of the same file
MEGABYTE = 10**6
TRIES = 5  # in a row without a new byte
PARTIAL, NOT_SATISFIABLE = 206, 416
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}


class UnreachableError(UserError):
    """A source that did not give the file; the next may."""


class _BrokenError(Exception):
    """The file did not come whole: worth another try."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def download(url: str, path: Path, checksums: Mapping[str, str], timeout: float = 30, pause: float = 1) -> None:
    """Write `path`, with `checksums` by algorithm where they are known; nothing is done if it is there."""
    with locked(path):
        if path.exists():
            return
        part = path.with_name(f"{path.name}.part")
        resumed = part.exists()
        _complete(url, part, timeout, pause)
        if resumed and wrong(part, checksums):  # perhaps what was here before
            part.unlink()
            _complete(url, part, timeout, pause)
        if told := wrong(part, checksums):
            part.unlink()
            raise UnreachableError(f"{url} gave a file whose {told}.")
        part.replace(path)


def wrong(path: Path, checksums: Mapping[str, str]) -> str:
    """How a file differs from the checksums that it should have; nothing if it does not."""
    for algorithm, expected in checksums.items():
        if (found := digest(path, algorithm)) != expected:
            return f"{algorithm} is {found}, not {expected}"
    return ""


def _complete(url: str, part: Path, timeout: float, pause: float) -> None:
    """Fetch what is missing, in as many pieces as it takes while each brings something."""
    tries = 0
    while True:
        before = _size(part)
        try:
            with open(part, "a+b", buffering=0) as file:
                return _append(url, file, part, timeout)
        except (_BrokenError, OSError, http.client.HTTPException) as error:
            tries = tries + 1 if _size(part) <= before else 0
            if tries == TRIES:
                reason = str(error) or type(error).__name__
                kept = f" after {_size(part) / MEGABYTE:.3g} MB, from where the next run goes on" if _size(part) else ""
                raise UnreachableError(f"{url} broke off{kept} ({reason}).") from None
            time.sleep(min(30, pause * 2**tries))
        finally:
            if not _size(part):
                part.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(url: str, file: IO[bytes], part: Path, timeout: float) -> None:
    """Ask for the rest of the file, from a little before its end here, and write it."""
    begin = max(0, _size(part) - OVERLAP)
    with _asked(url, begin, timeout) as response:
        if not begin or response.status != PARTIAL:  # from the beginning, asked for or not
            _refuse_page(url, response)
            file.truncate(0)
        elif not _same(response, file, begin):
            file.truncate(0)
            raise _BrokenError("it sends another file than before")
        here, rest = _size(part), response.length or 0
        with room(part.parent, rest):
            _copy(response, file, here, here + rest, part.stem)


@contextmanager
def _asked(url: str, begin: int, timeout: float) -> Iterator[http.client.HTTPResponse]:
    headers = {"User-Agent": "rtm", "Accept-Encoding": "identity"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if begin and error.code == NOT_SATISFIABLE:  # the part here is longer than the file there
            with _asked(url, 0, timeout) as response:
                yield response
            return
        if error.code in TEMPORARY:
            raise _BrokenError(f"{error.code} {error.reason}") from None
        raise UnreachableError(f"{url} answers {error.code} {error.reason}.") from None
    except urllib.error.URLError as error:
        raise UnreachableError(f"{url} cannot be reached ({error.reason}).") from None
    with response:
        if url.startswith("https:") and not response.url.startswith("https:"):
            raise UnreachableError(f"{url} leads to {response.url}, which is not encrypted.")
        yield response


def _same(response: http.client.HTTPResponse, file: IO[bytes], begin: int) -> bool:
    """Whether an answer to a range goes on with the file that is here."""
    if not (response.headers["Content-Range"] or "").startswith(f"bytes {begin}-"):
        return False
    file.seek(begin)
    here = file.read()
    return response.read(len(here)) == here


def _refuse_page(url: str, response: http.client.HTTPResponse) -> None:
    """A login or a licence page is no archive, whatever it is called."""
    start = response.peek(256)[:256].lstrip().lower()
    if response.headers.get_content_type() == "text/html" or start.startswith((b"<!doctype html", b"<html")):
        raise UnreachableError(f"{url} answers with a web page (a login or a licence?) in place of the file.")


def _copy(response: http.client.HTTPResponse, file: IO[bytes], here: int, total: int, name: str) -> None:
    with progress(f"download {name}, MB", total // MEGABYTE) as report:
        report(here // MEGABYTE)
        while chunk := response.read1(CHUNK):
            file.write(chunk)
            here += len(chunk)
            report(here // MEGABYTE)
    if here < total:
        raise _BrokenError(f"{total - here} of {total} bytes did not come")
