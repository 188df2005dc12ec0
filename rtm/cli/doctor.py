"""`rtm doctor`: what works on this machine, and how to get the rest."""

import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console

from rtm.config import Config
from rtm.pipeline.devices import unusable, usable_gpus

PATIENCE = 30.0  # seconds to wait for a command


@dataclass(frozen=True)
class Finding:
    subject: str
    good: bool
    advice: str  # what was found, or what to do


def examine(config: Config) -> list[Finding]:
    checks: list[Callable[[], Finding]] = [_gpu, lambda: _weights(config), lambda: _data(config)]
    return [check() for check in [*checks, _latex, _slurm, _dvc_remote]]


def show(findings: Iterable[Finding]) -> None:
    console = Console(highlight=False)
    for finding in findings:
        mark = "[green]yes[/]" if finding.good else "[yellow]no [/]"
        console.print(f"{mark} {finding.subject:<11} {finding.advice}", soft_wrap=True)


def _gpu() -> Finding:
    import torch

    if count := usable_gpus():
        return Finding("GPU", True, f"{count} x {torch.cuda.get_device_name()}, torch {torch.__version__}")
    if problem := unusable():
        return Finding("GPU", False, problem)
    return Finding("GPU", False, "none; the demo runs on the CPU, submit the rest with `snakemake --profile slurm`")


def _weights(config: Config) -> Finding:
    layout = config.layout
    missing = [name for name in ("inception", "vgg16") if not layout.weights(name).exists()]
    if missing:
        commands = " and ".join(f"`{config.fetching(name)}`" for name in missing)
        return Finding("weights", False, f"{', '.join(missing)} missing; get with {commands} (not needed for the demo)")
    return Finding("weights", True, f"inception and vgg16 in {layout.weights('inception').parent}/")


def _data(config: Config) -> Finding:
    folder = config.layout.images("any").parents[1]
    names = sorted(path.parent.name for path in folder.glob("*/meta.json"))
    return Finding("data", bool(names), ", ".join(names) or f"no dataset yet; try `{config.fetching('digits')}`")


def _latex() -> Finding:
    found = shutil.which("pdflatex")
    return Finding("LaTeX", bool(found), found or "no pdflatex; install TeX Live to compile the tables")


def _slurm() -> Finding:
    if not shutil.which("sbatch"):
        return Finding("SLURM", False, "no sbatch here; run `snakemake --profile slurm` on a cluster's login node")
    lines = _answer("sinfo", "-h", "-o", "%P %G")
    return Finding("SLURM", bool(lines), ", ".join(lines[:3]) or "the controller does not answer; try later")


def _dvc_remote() -> Finding:
    remotes = ", ".join(" ".join(line.split()) for line in _answer("dvc", "remote", "list"))
    return Finding("DVC", bool(remotes), f"{version('dvc')}, remote {remotes}" if remotes else "no remote; see README")


def _answer(*command: str) -> list[str]:
    """The lines that a command prints; none if it fails, is missing or takes too long."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout.splitlines()
    return []
