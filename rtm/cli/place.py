"""Folders: commands run in the root of the repository, but users give paths relative to their own folder."""

import os
from pathlib import Path

CALLED_FROM = "RTM_CALLED_FROM"  # the folder of the user, if that is below the root of the repository
ROOT_MARK = "params/scales.yaml"


def go_to_root() -> None:
    """Change to the root of the repository if the user is below it. Given paths stay relative to the user's folder."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / ROOT_MARK).is_file()), here)
    if root != here:
        os.environ[CALLED_FROM] = str(here)
        os.chdir(root)


def given_path(text: str) -> Path:
    """A file or folder that the user gave, relative to the user's folder."""
    path = Path(os.path.normpath(Path(os.environ.get(CALLED_FROM, "")) / text))
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def given_target(text: str) -> str:
    """A target: the name of a job, or a file, relative to the root or to the user's folder."""
    if CALLED_FROM not in os.environ:
        return text
    nearer = given_path(text)
    is_path = text.startswith((".", "/"))
    is_only_there = nearer.exists() and not Path(text).exists()
    return str(nearer) if is_path or is_only_there else text


def given_images(text: str) -> str:
    """A name or a path. A word that begins with a dot is a path, and the result begins with a dot or a slash, too."""
    target = given_target(text)
    return f"./{target}" if text.startswith(".") and not target.startswith((".", "/")) else target
