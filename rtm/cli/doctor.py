"""`rtm doctor`: what works on this machine, and how to get the rest."""

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version

from rich.console import Console
from rich.markup import escape
from safetensors import safe_open

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.files import reading
from rtm.pipeline.devices import unusable, usable_gpus

PATIENCE = 30.0  # seconds to wait for a command
MARKS = {True: "[green]yes [/]", False: "[yellow]no  [/]", None: "[yellow]part[/]"}
METRICS = {(True, True): "FID, KID and P/R", (True, False): "FID and KID", (False, True): "P/R"}


@dataclass(frozen=True)
class Finding:
    subject: str
    good: bool | None  # None: in part
    advice: str  # what was found, or what to do


def examine(config: Config) -> list[Finding]:
    return [_gpu(), *_weights(config), _data(config), _latex(), _slurm(), _dvc_remote()]


def show(findings: Iterable[Finding]) -> None:
    console = Console(highlight=False)
    for finding in findings:
        console.print(f"{MARKS[finding.good]} {finding.subject:<11} {escape(finding.advice)}", soft_wrap=True)


def _gpu() -> Finding:
    import torch

    if count := usable_gpus():
        return Finding("GPU", True, f"{count} x {torch.cuda.get_device_name()}, torch {torch.__version__}")
    if problem := unusable():
        return Finding("GPU", False, problem)
    return Finding("GPU", False, "none; the demo runs on the CPU, submit the rest with `snakemake --profile slurm`")


def _weights(config: Config) -> list[Finding]:
    """A finding for each network: whether its file is here, and which uses the file allows."""
    from rtm.data.weights import NETWORKS

    return [_network(config, name) for name in NETWORKS]


def _uses(config: Config, name: str, whole: bool) -> Iterator[str]:
    """The uses of a network. `whole` is true if its file has the part that some files lack."""
    if name == "vgg16":
        yield "LPIPS in the trainings of RS-IMLE"
    served = defaultdict[str, list[str]](list)
    for protocol, each in config.params.protocols.items():
        quality, coverage = each.extractor == name, each.pr_extractor == name and (whole or name != "vgg16")
        if quality or coverage:
            served[METRICS[quality, coverage]].append(protocol)
    yield from (f"{metrics} of {', '.join(protocols)}" for metrics, protocols in served.items())
    if name == "inception" and whole:
        yield "Inception score"


def _network(config: Config, name: str) -> Finding:
    from rtm.data.parts import lacking
    from rtm.data.weights import NETWORKS

    path = config.layout.weights(name)
    if not path.exists():
        uses = "; ".join(_uses(config, name, whole=True))
        return Finding(name, False, f"not here; get it with `{config.fetching(name)}`, for {uses} (not for the demo)")
    try:
        with reading(path, f"get it again with `{config.fetching(name)}`"), safe_open(path, "numpy"):
            lacks = lacking(name, path)
    except UserError as error:
        return Finding(name, False, str(error))
    able = f"{path}: {'; '.join(_uses(config, name, whole=not lacks))}"
    if not lacks:
        return Finding(name, True, able)
    address = NETWORKS[name].sources[0].url
    command = f"`{config.fetching(name)} --source {address.rpartition('/')[2]}`"
    return Finding(name, None, f"{able}; it lacks {lacks}: get {address} and run {command}")


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
