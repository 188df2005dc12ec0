"""Get a file over https, complete or not at all. A partial download is kept, and the next try continues it.

A partial file is continued only if the server sends its last bytes again; the complete file is taken only if its
checksums are right. `rtm.load` downloads with this module too, so it needs no package besides those of torch.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from filelock import FileLock

from rtm.core.errors import UserError, printable
from rtm.core.files import digest, room
from rtm.core.progress import progress

CHUNK = 1 << 18
OVERLAP = 1 << 16  # bytes that are requested again, to check that the partial file belongs to the same file
MEGABYTE = 10**6
LARGEST = 1 << 35  # bytes; the largest archive of the paper's datasets has less than 2^33
TIMEOUT = 30.0  # seconds for a connection, an answer, or the next bytes
TRIES = 5  # most tries in a row without a new byte
PAUSE = 1.0  # seconds before the second try; they double
OK = 200
PARTIAL = 206
NOT_SATISFIABLE = 416
TEMPORARY = {408, NOT_SATISFIABLE, 425, 429, 500, 502, 503, 504}


class UnreachableError(UserError):
    """A source did not give the file; the next source may."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time into this block; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        yield


def download(url: str, path: Path, checksums: Mapping[str, str], largest: int = LARGEST) -> None:
    """Download to `path`, unless it exists. Checksums are by algorithm, as far as they are known."""
    with locked(path):
        if path.exists():
            return
        part = path.with_name(f"{path.name}.part")
        resumed = part.exists()
        _complete(url, part, largest)
        if resumed and difference(part, checksums):  # perhaps the old part was wrong
            part.unlink()
            _complete(url, part, largest)
        if wrong := difference(part, checksums):
            part.unlink()
            raise UnreachableError(f"{url} gave a file whose {wrong}.")
        part.replace(path)


def difference(path: Path, checksums: Mapping[str, str]) -> str:
    """A text about the difference between a file and its known checksums; "" if there is none."""
    for algorithm, expected in checksums.items():
        computed = digest(path, algorithm)
        if computed != expected:
            return f"{algorithm} is {computed}, not {expected}"
    return ""


def _complete(url: str, part: Path, largest: int) -> None:
    """Request the rest of the file again and again, as long as the requests bring new bytes."""
    furthest = _size(part)
    tries = 0
    while True:
        try:
            return _append(url, part, largest)
        except (OSError, HTTPException) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
        tries = 0 if _size(part) > furthest else tries + 1
        furthest = max(furthest, _size(part))
        if tries == TRIES:
            break
        time.sleep(min(30, PAUSE * 2**tries))
    here = _size(part)
    rest = f" after {here / MEGABYTE:.3g} MB, from where the next run goes on" if here else ""
    raise UnreachableError(f"{url} broke off{rest} ({reason}).")


def _append(url: str, part: Path, largest: int) -> None:
    """Request the rest of the file and write it. The request begins a little before the end of the partial file."""
    begin = max(0, _size(part) - OVERLAP)
    with _answer(url, begin, part) as answer:
        if begin and answer.status == PARTIAL:
            _check_overlap(answer, part, begin)
            here = _size(part)
        elif answer.status == OK:  # the answer begins at the first byte
            _refuse_page(url, answer)
            part.unlink(missing_ok=True)
            here = 0
        else:
            raise UnreachableError(f"{url} answers {answer.status} {answer.reason}.")
        _copy(url, answer, part, here, largest)


def _answer(url: str, begin: int, part: Path) -> HTTPResponse:
    headers = {"User-Agent": "rtm"}
    if begin:
        headers["Range"] = f"bytes={begin}-"
    try:
        answer: HTTPResponse = build_opener(_Encrypted).open(Request(url, headers=headers), timeout=TIMEOUT)
    except HTTPError as error:
        error.close()
        if error.code not in TEMPORARY:
            raise UnreachableError(f"{url} answers {error.code} {error.reason}.") from None
        if error.code == NOT_SATISFIABLE:  # the partial file is longer than the server's file
            part.unlink(missing_ok=True)
        raise OSError(f"{error.code} {error.reason}") from None
    except URLError as error:
        raise UnreachableError(f"{url} cannot be reached ({error.reason}).") from None
    except (ValueError, OverflowError) as error:
        raise UnreachableError(f"{url} leads to no web address ({error}).") from None
    return answer


class _Encrypted(HTTPRedirectHandler):
    """Redirects of an https address stay encrypted, and none leaves the web."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        reason = ""
        if not newurl.startswith(("https:", "http:")):
            reason = "no web address"
        elif req.full_url.startswith("https:") and not newurl.startswith("https:"):
            reason = "not encrypted"
        if reason:
            fp.close()
            raise UnreachableError(f"{req.full_url} redirects to {newurl}, which is {reason}.")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _refuse_page(url: str, answer: HTTPResponse) -> None:
    """Raise an error if the answer is a web page, for example for a login or a licence, instead of a file."""
    start = answer.peek(256).lstrip().lower()
    if not start:
        raise UnreachableError(f"{url} answers with an empty file.")
    kind = answer.headers.get("Content-Type", "")
    if kind.startswith("text/html") or start.startswith((b"<!doctype html", b"<html")):
        raise UnreachableError(f"{url} answers with a web page (a login or a licence?) in place of the file.")


def _check_overlap(answer: HTTPResponse, part: Path, begin: int) -> None:
    """Read the first bytes of the answer, which must be the last ones of the partial file."""
    with open(part, "rb") as file:
        file.seek(begin)
        end = file.read()
    continues = answer.headers.get("Content-Range", "").startswith(f"bytes {begin}-")
    if not continues or answer.read(len(end)) != end:
        part.unlink()
        raise OSError("it sends another file than before")


def _copy(url: str, answer: HTTPResponse, part: Path, here: int, largest: int) -> None:
    """Write the rest of the answer behind the first `here` bytes, as it arrives."""
    rest = answer.length
    total = largest if rest is None else here + rest
    _refuse_large(url, part, total, largest)
    with (
        room(part.parent, rest or 0),
        open(part, "ab", buffering=0) as file,
        progress(f"download {part.stem}, MB", total // MEGABYTE) as report,
    ):
        while chunk := answer.read1(CHUNK):
            file.write(chunk)
            here += len(chunk)
            _refuse_large(url, part, here, largest)
            report(here // MEGABYTE)
    if rest is not None and here != total:
        raise OSError(f"it ended after {here:,} of {total:,} bytes")


def _refuse_large(url: str, part: Path, size: int, largest: int) -> None:
    if size > largest:
        part.unlink(missing_ok=True)
        most = f"{largest / MEGABYTE:,.0f} MB is the most that is taken"
        raise UnreachableError(f"{url} sends {size / MEGABYTE:,.0f} MB or more, and {most}.")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
