"""Where, when and with what a job ran. Part of a receipt, not of a fingerprint."""

import getpass
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Any

from rtm.lineage.versions import loaded_versions

COMPARED = ("torch", "torchvision", "torch-fidelity", "cuda", "cudnn", "gpu")
_MADE_FROM = (":/*.py", ":/*.yaml", ":/*.smk", ":/Snakefile", ":/requirements.lock")  # the files that results depend on


def environment(entries: Iterable[str]) -> dict[str, str]:
    """Versions by name. torch is asked only if the job has loaded it: importing it would take seconds."""
    packages = loaded_versions(*(entry for entry in entries if entry[0] != "!" and "/" not in entry))
    return {"python": platform.python_version(), **packages, **(_cuda() if "torch" in packages else {})}


def _cuda() -> dict[str, str]:
    torch: Any = sys.modules["torch"]
    if not torch.cuda.is_available():
        return {}
    names = sorted({torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())})
    facts = {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version(), "driver": driver()}
    return {"gpu": ", ".join(names), **{name: str(value) for name, value in facts.items() if value}}


@cache
def driver() -> str | None:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    with suppress(OSError, subprocess.SubprocessError, IndexError):
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.split()[0]
    return None


def differences(environments: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Sentences about different environments of results that are shown side by side; keys are names of results."""
    for fact in COMPARED:
        values: dict[str, list[str]] = {}
        for name, found in environments.items():
            if fact in found:
                values.setdefault(found[fact], []).append(name)
        if len(values) > 1:
            groups = (f"{value} ({', '.join(names)})" for value, names in values.items())
            yield f"Results were made with different {fact}: {'; '.join(groups)}."


def host() -> dict[str, str]:
    """This machine's name, or the name in RTM_HOST; nothing if RTM_HOST is empty."""
    name = os.environ.get("RTM_HOST", platform.node())
    return {"host": name} if name else {}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def author() -> str:
    with suppress(OSError, subprocess.SubprocessError):
        return _printed(["git", "config", "user.name"])
    return getpass.getuser()


def revision() -> str | None:
    """The commit, marked if code or parameters were changed or added. Files that the pipeline writes do not count."""
    # without git's lock, which could disturb a commit of the user
    changed = ["git", "--no-optional-locks", "status", "--porcelain", "--", *_MADE_FROM]
    with suppress(OSError, subprocess.SubprocessError):
        return _printed(["git", "rev-parse", "HEAD"]) + ("-dirty" if _printed(changed) else "")
    return None


def _printed(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
