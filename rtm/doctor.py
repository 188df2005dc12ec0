"""What works on this machine, and what to do about what does not."""

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console

from rtm.layout import Layout


@dataclass(frozen=True)
class Finding:
    subject: str
    good: bool
    told: str  # what is there, or what to do


def examine(layout: Layout) -> list[Finding]:
    checks: list[Callable[[], Finding]] = [_gpu, _faiss, lambda: _weights(layout), lambda: _data(layout)]
    return [check() for check in [*checks, _latex, _slurm, _dvc_remote]]


def show(findings: list[Finding]) -> None:
    console = Console(highlight=False)
    for finding in findings:
        mark = "[green]yes[/]" if finding.good else "[yellow]no [/]"
        console.print(f"{mark} {finding.subject:<11} {finding.told}", soft_wrap=True)


def _gpu() -> Finding:
    import torch

    count = torch.cuda.device_count()
    if count:
        return Finding("GPU", True, f"{count} x {torch.cuda.get_device_name()}, torch {torch.__version__}")
    return Finding("GPU", False, "none: the demo runs on the CPU; submit the rest with `snakemake --profile slurm`")


def _faiss() -> Finding:
    import faiss

    gpus = faiss.get_num_gpus() if hasattr(faiss, "get_num_gpus") else 0
    return Finding("faiss", True, f"{faiss.__version__}, {'on the GPU' if gpus else 'on the CPU'}")


def _weights(layout: Layout) -> Finding:
    missing = [name for name in ("inception", "vgg16") if not layout.weights(name).exists()]
    if missing:
        commands = " and ".join(f"`rtm fetch {name}`" for name in missing)
        return Finding("weights", False, f"{', '.join(missing)} missing: {commands} (the demo needs neither)")
    return Finding("weights", True, f"inception and vgg16 in {layout.weights('inception').parent}/")


def _data(layout: Layout) -> Finding:
    folder = layout.images("any").parents[1]
    names = sorted(path.parent.name for path in folder.glob("*/meta.json"))
    return Finding("data", bool(names), ", ".join(names) or "no dataset yet: `rtm fetch digits`")


def _latex() -> Finding:
    found = shutil.which("pdflatex")
    return Finding("LaTeX", bool(found), found or "no pdflatex: tables are written but not compiled; install TeX Live")


def _slurm() -> Finding:
    if not shutil.which("sbatch"):
        return Finding("SLURM", False, "no sbatch here: run `snakemake --profile slurm` on a cluster's login node")
    answer = subprocess.run(["sinfo", "-h", "-o", "%P %G"], capture_output=True, text=True, timeout=20)
    partitions = ", ".join(answer.stdout.split("\n")[:3]).strip(", ")
    return Finding("SLURM", answer.returncode == 0, partitions or "sbatch is here but the controller does not answer")


def _dvc_remote() -> Finding:
    answer = subprocess.run(["dvc", "remote", "list"], capture_output=True, text=True, timeout=60)
    remotes = ", ".join(" ".join(line.split()) for line in answer.stdout.splitlines())
    return Finding("DVC", bool(remotes), f"{version('dvc')}, remote {remotes}" if remotes else "no remote: see README")
