"""Advice for the user: the commands that bring back or make a file."""

import shlex
from pathlib import Path


def back(path: Path | str) -> str:
    """Advice for getting a file back from git or DVC, or for making it again."""
    bring = f"bring it back with `git checkout -- {path}` or `dvc checkout {path}`"
    return f"{bring}, or delete it and make it again with `{make_command(path)}`"


def make_command(path: Path | str, *options: str, gpus: bool = False) -> str:
    """The command that makes a file: on a cluster if it needs GPUs, otherwise on this machine."""
    profile = "--profile slurm" if gpus else "--cores all"
    return " ".join(["snakemake", profile, *options, "--", shlex.quote(str(path))])


def at_scale(path: Path, levels: int) -> str:
    """The option --scale for a file that is `levels` levels below its scale's folder. A scale has the name of its
    folder; a variant has the option of its scale."""
    folder = Path(*path.parts[: len(path.parts) - levels])
    scale = str(folder).removeprefix("variants/")
    if path.is_absolute() or scale in (".", "paper"):
        return ""
    return f" --scale {scale}"


def pull_target(images: Path) -> Path:
    """What brings a dataset from a remote: data.dvc, or the folder of a scale that has its own data/."""
    is_in_data = images.parts[0] == "data"
    return Path("data.dvc") if is_in_data else images.parent
