"""Files by path, by https:// or by hf://. A light install is enough, with huggingface_hub for hf://."""

import hashlib
import os
import re
from pathlib import Path

from rtm.core.errors import UserError, printable, reason_of
from rtm.data.download import UnreachableError, download

HUB = re.compile(r"hf://(?P<repo>[^/@]+/[^/@]+)(@(?P<revision>[^/]+))?/(?P<file>.+)")
NEEDS_HUB = "huggingface_hub is not installed; get it with `pip install huggingface_hub`"


def local(source: str | Path) -> Path:
    """The path of a file. If `source` is an address, the file is downloaded once into the user's cache."""
    address = str(source)
    if address.startswith("hf://"):
        return _from_hub(address)
    if address.startswith(("https://", "http://")):
        return _from_web(address)
    return Path(source)


def _from_hub(address: str) -> Path:
    match = HUB.fullmatch(address)
    if not match:
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
        reason = reason_of(error)
        raise UserError(f"{printable(address)} cannot be fetched ({reason}); correct it, or try again.") from None


def _from_web(address: str) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    last_part = address.split("?")[0].rsplit("/", 1)[-1]
    name = re.sub(r"[^\w.-]", "_", last_part)[-100:]
    path = cache / "rtm" / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}-{name}"
    try:
        download(address, path, {})
    except UnreachableError as error:
        reason = str(error).removesuffix(".")
        raise UserError(f"{reason}; correct the address, or try again.") from None
    return path
