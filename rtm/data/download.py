"""Get a file over https, whole or not at all."""

import urllib.error
import urllib.request
from pathlib import Path

from rtm.errors import UserError
from rtm.files import atomic
from rtm.progress import progress

_CHUNK = 1 << 20


def download(url: str, path: Path, timeout: float = 30) -> None:
    try:
        with urllib.request.urlopen(url, timeout=timeout) as response, atomic(path) as file:
            size = int(response.headers.get("Content-Length", 0))
            with progress(f"download {path.name}", size) as report:
                done = 0
                while chunk := response.read(_CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    report(done)
            if size and done != size:
                raise UserError(f"{url} broke off after {done} of {size} bytes; run this again.")
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{url} cannot be reached ({reason}); get it on a machine with internet and put it at {path}."
        ) from None
