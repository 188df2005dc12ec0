"""Where, when and with what a job ran. Part of a receipt, not of a fingerprint."""

import getpass
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from rtm.core.devices import driver

COMPARED = ("torch", "torchvision", "torch-fidelity", "cuda", "cudnn", "gpu")
PACKAGES = {  # module: distribution
    **{name: name for name in ("jinja2", "lpips", "matplotlib", "numpy", "pandas", "safetensors", "scipy")},
    **{name: name for name in ("torch", "torchvision")},
    "PIL": "pillow",
    "torch_fidelity": "torch-fidelity",
}
_MADE_FROM = (":/*.py", ":/*.yaml", ":/*.smk", ":/Snakefile", ":/requirements.lock")  # the files that results depend on


def environment() -> dict[str, str]:
    """The versions of the packages that this process has loaded, and of CUDA."""
    versions = {"python": platform.python_version()}
    for module, distribution in sorted(PACKAGES.items(), key=lambda pair: pair[1]):
        with suppress(PackageNotFoundError):
            if module in sys.modules:
                versions[distribution] = version(distribution)
    return versions | (_cuda() if "torch" in versions else {})


def _cuda() -> dict[str, str]:
    torch: Any = sys.modules["torch"]
    if not torch.cuda.is_available():
        return {}
    names = {torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())}
    facts = {
        "gpu": ", ".join(sorted(names)),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "driver": driver(),
    }
    return {name: str(value) for name, value in facts.items() if value}


def differences(environments: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Sentences about different environments of results that are shown side by side; keys are names of results."""
    for fact in COMPARED:
        names_by_value: dict[str, list[str]] = {}
        for name, versions in environments.items():
            if fact in versions:
                names_by_value.setdefault(versions[fact], []).append(name)
        if len(names_by_value) > 1:
            groups = (f"{value} ({', '.join(names)})" for value, names in names_by_value.items())
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
