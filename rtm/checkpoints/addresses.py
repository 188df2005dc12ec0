"""Files by path, by https:// or by hf://, for a light install: the standard library, and huggingface_hub for hf://."""

import hashlib
import os
import re
import shutil
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rtm.core.errors import UserError, printable, reason_of
from rtm.core.files import atomic

HUB = re.compile(r"hf://(?P<repo>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?/(?P<file>.+)")
NEEDS_HUB = "huggingface_hub is not installed; get it with `pip install huggingface_hub`"


class _Encrypted(HTTPRedirectHandler):
    """Redirects of an https address stay encrypted."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Request | None:
        if req.full_url.startswith("https:") and not newurl.startswith("https:"):
            raise OSError(f"it redirects to {newurl}, which is not encrypted")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def local(source: str | Path) -> Path:
    """The path of a file. If `source` is an address, the file is downloaded once into the user's cache."""
    address = str(source)
    if address.startswith("hf://"):
        return _from_hub(address)
    return _downloaded(address) if address.startswith(("https://", "http://")) else Path(source)


def _from_hub(address: str) -> Path:
    if not (match := HUB.fullmatch(address)):
        raise UserError(
            f"{printable(address)} is no address; write hf://owner/name/file or hf://owner/name@revision/file."
        )
    try:
        from huggingface_hub import hf_hub_download
    except ModuleNotFoundError:
        raise UserError(f"{NEEDS_HUB}, then {printable(address)} can be read.") from None
    try:
        return Path(hf_hub_download(match["repo"], match["file"], revision=match["revision"]))
    except Exception as error:  # no network, no such repository or file, a wrong name: several libraries raise these
        raise _failed(address, error) from None


def _downloaded(address: str) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "rtm"
    name = re.sub(r"[^\w.-]", "_", address.split("?")[0].rsplit("/", 1)[-1])[-100:]
    path = folder / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}-{name}"
    if path.exists():
        return path
    try:
        with build_opener(_Encrypted).open(address, timeout=60) as answer, atomic(path) as file:
            shutil.copyfileobj(answer, file)
            if (length := answer.headers["Content-Length"]) and file.tell() != int(length):
                raise OSError(f"it ended after {file.tell():,} of {int(length):,} bytes")
    except (OSError, ValueError, HTTPException) as error:
        raise _failed(address, error) from None
    return path


def _failed(address: str, error: Exception) -> UserError:
    return UserError(f"{printable(address)} cannot be fetched ({reason_of(error)}); correct it, or try again.")
