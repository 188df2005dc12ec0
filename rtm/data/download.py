"""Get a file over https, complete or not at all. A partial download is kept, and the next try continues it.

A partial file is trusted only if the server sends its last bytes again; the complete file only if its checksums are
right. If a server drops connections, ignores ranges or answers with an error, it gets a few more tries. If it sends too
much, too slowly, or another kind of file, the next source is tried.
"""

import fcntl
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, TypeVar
from urllib.parse import urljoin

import requests
import urllib3

from rtm.core.errors import UserError, printable
from rtm.core.files import digest, room
from rtm.core.progress import progress

CHUNK = 1 << 18
OVERLAP = 1 << 16  # bytes that are requested again, to check that the partial file belongs to the same file
MEGABYTE = 10**6
LARGEST = 1 << 35  # bytes; the largest archive of the paper's datasets has less than 2^33
HOPS = 10  # most redirects
OK, PARTIAL, NOT_SATISFIABLE = 200, 206, 416
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}
BROKEN = (OSError, requests.RequestException, urllib3.exceptions.HTTPError)
T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """The limits for waiting for a server."""

    timeout: float = 30  # seconds for a connection, an answer, or the next bytes
    pause: float = 1  # seconds before the second try; they double
    window: float = 60  # seconds over which the speed is measured ...
    slowest: float = 1000  # ... and how many bytes a second it must have at least
    tries: int = 5  # most tries in a row without a new byte
    requests: int = 100  # most requests to one source


class UnreachableError(UserError):
    """A source did not give the file; the next source may."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class _BrokenError(Exception):
    """The file is incomplete, but another try may work."""


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time into this block; the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(f".{path.name}.lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def download(
    url: str,
    path: Path,
    checksums: Mapping[str, str],  # by algorithm, as far as they are known
    largest: int = LARGEST,
    patience: Patience | None = None,
) -> None:
    """Download to `path`, unless it exists."""
    with locked(path):
        if path.exists():
            return
        part = path.with_name(f"{path.name}.part")
        resumed = part.exists()
        getting = _Download(url, part, largest, patience or Patience())
        getting.complete()
        if resumed and difference(part, checksums):  # perhaps the old part was wrong
            part.unlink()
            getting.complete()
        if wrong := difference(part, checksums):
            part.unlink()
            raise UnreachableError(f"{url} gave a file whose {wrong}.")
        part.replace(path)


def difference(path: Path, checksums: Mapping[str, str]) -> str:
    """A text about the difference between a file and its known checksums; "" if there is none."""
    for algorithm, expected in checksums.items():
        if (found := digest(path, algorithm)) != expected:
            return f"{algorithm} is {found}, not {expected}"
    return ""


class _Session(requests.Session):
    """A session that follows no redirects: requests would leave the connection open if the new address is invalid."""

    def get_redirect_target(self, resp: requests.Response) -> None:
        return None


class _Download:
    """One file from one source. It is requested again as long as the requests bring new bytes."""

    def __init__(self, url: str, part: Path, largest: int, patience: Patience) -> None:
        self.url, self.part, self.largest, self.patience = url, part, largest, patience

    def complete(self) -> None:
        tries, furthest = 0, _size(self.part)
        for _ in range(self.patience.requests):
            try:
                with open(self.part, "a+b", buffering=0) as file:
                    return self._append(file)
            except (_BrokenError, *BROKEN) as error:
                reason = _reason(error)
            finally:
                if not _size(self.part):
                    self.part.unlink(missing_ok=True)
            tries = 0 if _size(self.part) > furthest else tries + 1
            furthest = max(furthest, _size(self.part))
            if tries == self.patience.tries:
                break
            time.sleep(min(30, self.patience.pause * 2**tries))
        here = _size(self.part)
        kept = f" after {here / MEGABYTE:.3g} MB, from where the next run goes on" if here else ""
        raise UnreachableError(f"{self.url} broke off{kept} ({reason}).")

    def _append(self, file: IO[bytes]) -> None:
        """Request the rest of the file and write it. The request begins a little before the end of the partial file."""
        begin = max(0, _size(self.part) - OVERLAP)
        with self._asked(begin) as response:
            chunks, rest = self._chunks(response), response.raw.length_remaining or 0
            if not begin or response.status_code != PARTIAL:  # the answer begins at the first byte
                first = next(chunks, b"")
                self._refuse_page(response, first)
                file.truncate(0)
                begin = 0
            else:
                first = _after(_overlap(response, file, begin), chunks, file)
            self._copy(itertools.chain([first], chunks), file, begin + rest)

    @contextmanager
    def _asked(self, begin: int) -> Iterator[requests.Response]:
        with self._answer(begin) as response:
            code = response.status_code
            if begin and code == NOT_SATISFIABLE:  # the partial file is longer than the server's file
                with self._asked(0) as whole:
                    yield whole
                return
            if code in TEMPORARY:
                raise _BrokenError(f"{code} {response.reason}")
            if code not in (OK, PARTIAL) or (code == PARTIAL and not begin):
                raise UnreachableError(f"{self.url} answers {code} {response.reason}.")
            yield response

    def _answer(self, begin: int) -> requests.Response:
        """The answer after all redirects. An https address must not lead to http."""
        url = self.url
        for _ in range(HOPS):
            response = self._get(url, begin)
            if not response.is_redirect:
                return response
            with response:
                url = self._next(url, response.headers["Location"])
            if self.url.startswith("https:") and not url.startswith("https:"):
                raise UnreachableError(f"{self.url} redirects to {url}, which is not encrypted.")
        raise UnreachableError(f"{self.url} redirects too often, at last to {url}.")

    def _next(self, url: str, location: str) -> str:
        try:
            return urljoin(url, location)
        except ValueError:
            raise self._no_address(location) from None

    def _no_address(self, url: str) -> UnreachableError:
        return UnreachableError(f"{self.url} redirects to {url!r}, which is no web address.")

    def _get(self, url: str, begin: int) -> requests.Response:
        headers = {"User-Agent": "rtm", "Accept-Encoding": "identity"} | ({"Range": f"bytes={begin}-"} if begin else {})
        timeout = self.patience.timeout
        try:
            with _Session() as session:
                return _within(2 * timeout, lambda: session.get(url, headers=headers, timeout=timeout, stream=True))
        except ValueError:
            raise self._no_address(url) from None
        except requests.ConnectionError as error:
            if not isinstance(_inner(error), urllib3.exceptions.MaxRetryError):  # the connection broke after its start
                raise
            raise UnreachableError(f"{url} cannot be reached ({_reason(error)}).") from None

    def _refuse_page(self, response: requests.Response, first: bytes) -> None:
        """Raise an error if the answer is a web page, for example for a login or a licence, instead of a file."""
        if not first:
            raise UnreachableError(f"{self.url} answers with an empty file.")
        kind, start = response.headers.get("Content-Type", ""), first[:256].lstrip().lower()
        if kind.startswith("text/html") or start.startswith((b"<!doctype html", b"<html")):
            raise UnreachableError(f"{self.url} answers with a web page (a login or a licence?) in place of the file.")

    def _copy(self, chunks: Iterable[bytes], file: IO[bytes], total: int) -> None:
        self._refuse_large(total)
        here, folder = _size(self.part), self.part.parent
        title = f"download {self.part.stem}, MB"
        with room(folder, max(0, total - here)), progress(title, total // MEGABYTE) as report:
            report(here // MEGABYTE)
            for chunk in chunks:
                file.write(chunk)
                here += len(chunk)
                self._refuse_large(here)
                report(here // MEGABYTE)

    def _chunks(self, response: requests.Response) -> Iterator[bytes]:
        """Yield the bytes of an answer as they arrive, as long as they arrive fast enough."""
        began, came = time.monotonic(), 0
        while chunk := response.raw.read1(CHUNK):
            yield chunk
            came += len(chunk)
            if (seconds := time.monotonic() - began) > self.patience.window:
                if came < self.patience.slowest * seconds:
                    raise UnreachableError(f"{self.url} is too slow (only {came} bytes came in {seconds:.2g} s).")
                began, came = time.monotonic(), 0

    def _refuse_large(self, size: int) -> None:
        if size > self.largest:
            self.part.unlink(missing_ok=True)
            raise UnreachableError(
                f"{self.url} sends {size / MEGABYTE:,.0f} MB or more, and {self.largest / MEGABYTE:,.0f} MB is the "
                "most that is taken."
            )


def _within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call, with a time limit, because a server can send its header one byte at a time for ever."""
    answers: SimpleQueue[T | BaseException] = SimpleQueue()

    def run() -> None:
        try:
            answers.put(call())
        except BaseException as error:
            answers.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise _BrokenError(f"no answer in {seconds:g} s") from None
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _inner(error: BaseException) -> BaseException | None:
    """The error inside an error, if a package wrapped it in its own type."""
    wrapped = [getattr(error, "reason", None), *reversed(error.args)]
    return next((each for each in wrapped if isinstance(each, BaseException)), None)


def _reason(error: BaseException) -> str:
    while inner := _inner(error):
        error = inner
    text = " ".join(str(error).split()).split("): ", 1)[-1]  # remove urllib3's name of the connection
    return text or type(error).__name__


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _overlap(response: requests.Response, file: IO[bytes], begin: int) -> bytes:
    """The end of the partial file; the answer to a range must begin with these bytes."""
    if not response.headers.get("Content-Range", "").startswith(f"bytes {begin}-"):
        file.truncate(0)
        raise _BrokenError("it sends another range than was asked for")
    file.seek(begin)
    return file.read()


def _after(here: bytes, chunks: Iterator[bytes], file: IO[bytes]) -> bytes:
    """Check that the answer begins with the bytes `here`; return the bytes of the last chunk after them."""
    while here:
        chunk = next(chunks, b"")
        if not chunk:
            raise _BrokenError("it ends before the part that is here")
        known = min(len(chunk), len(here))
        if chunk[:known] != here[:known]:
            file.truncate(0)
            raise _BrokenError("it sends another file than before")
        here, rest = here[known:], chunk[known:]
    return rest
