"""What works on this machine, and how to get the rest."""

import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version

import torch
from safetensors import safe_open

from rtm.config import Config
from rtm.core.errors import UserError
from rtm.core.readers import reading
from rtm.data.networks import NETWORKS
from rtm.data.parts import lacking
from rtm.stages.dataset import Dataset
from rtm.stages.network import Network
from rtm.training.devices import unusable, usable_gpus

PATIENCE = 30.0  # seconds to wait for a command
METRICS = {(True, True): "FID, KID and P/R", (True, False): "FID and KID", (False, True): "P/R"}


@dataclass(frozen=True)
class Finding:
    subject: str
    good: bool | None  # None: in part
    advice: str  # what was found, or what to do


def examine(config: Config) -> list[Finding]:
    networks = [_network(config, name) for name in NETWORKS]
    return [_gpu(), _faiss(), *networks, _data(config), _latex(), _slurm(), _dvc_remote()]


def _gpu() -> Finding:
    if count := usable_gpus():
        return Finding("GPU", True, f"{count} x {torch.cuda.get_device_name()}, torch {torch.__version__}")
    if problem := unusable():
        return Finding("GPU", False, problem)
    return Finding("GPU", False, "none; the demo runs on the CPU, submit the rest with `snakemake --profile slurm`")


def _faiss() -> Finding:
    """Which build of faiss searches for RS-IMLE. A GPU needs the one for GPUs; they exclude each other."""
    try:
        faiss = import_module("faiss")
    except ImportError:
        return Finding("faiss", False, "not here; `make install`, with a GPU `make install FAISS=gpu`")
    seen = faiss.get_num_gpus() if hasattr(faiss, "StandardGpuResources") else None
    if seen is None:
        return Finding("faiss", not usable_gpus(), f"{faiss.__version__} for CPUs; GPUs need `make install FAISS=gpu`")
    return Finding("faiss", seen >= usable_gpus(), f"{faiss.__version__} for GPUs, of which it sees {seen}")


def _uses(config: Config, name: str, whole: bool) -> str:
    """The uses of a network. `whole` is true if its file has the part that some files lack."""
    uses = ["LPIPS in the trainings of RS-IMLE"] if name == "vgg16" else []
    served: dict[str, list[str]] = {}
    for title, protocol in config.params.protocols.items():
        quality = protocol.extractor == name
        coverage = protocol.pr_extractor == name and (whole or name != "vgg16")
        if quality or coverage:
            served.setdefault(METRICS[quality, coverage], []).append(title)
    uses += [f"{metrics} of {', '.join(protocols)}" for metrics, protocols in served.items()]
    if name == "inception" and whole:
        uses.append("Inception score")
    return "; ".join(uses)


def _network(config: Config, name: str) -> Finding:
    """Whether a network's file is here, and which uses the file allows."""
    path = Network().path(config, "weights", network=name)
    fetching = config.fetching(name)
    if not path.exists():
        uses = _uses(config, name, whole=True)
        return Finding(name, False, f"not here; get it with `{fetching}`, for {uses} (not for the demo)")
    try:
        with reading(path, f"get it again with `{fetching}`"), safe_open(path, "numpy"):
            lacks = lacking(name, path)
    except UserError as error:
        return Finding(name, False, str(error))
    able = f"{path}: {_uses(config, name, whole=not lacks)}"
    if not lacks:
        return Finding(name, True, able)
    address = NETWORKS[name].sources[0].origin
    file = address.rpartition("/")[2]
    return Finding(name, None, f"{able}; it lacks {lacks}: get {address} and run `{fetching} --source {file}`")


def _data(config: Config) -> Finding:
    folder = Dataset().path(config, "images", dataset="any").parents[1]
    names = sorted(path.parent.name for path in folder.glob("*/meta.json"))
    if not names:
        return Finding("data", False, f"no dataset yet; try `{config.fetching('digits')}`")
    return Finding("data", True, ", ".join(names))


def _latex() -> Finding:
    program = shutil.which("pdflatex")
    return Finding("LaTeX", bool(program), program or "no pdflatex; install TeX Live to compile the tables")


def _slurm() -> Finding:
    if not shutil.which("sbatch"):
        return Finding("SLURM", False, "no sbatch here; run `snakemake --profile slurm` on a cluster's login node")
    lines = _answer("sinfo", "-h", "-o", "%P %G")
    return Finding("SLURM", bool(lines), ", ".join(lines[:3]) or "the controller does not answer; try later")


def _dvc_remote() -> Finding:
    lines = [" ".join(line.split()) for line in _answer("dvc", "remote", "list")]
    if not lines:
        return Finding("DVC", False, "no remote; see README")
    return Finding("DVC", True, f"{version('dvc')}, remote {', '.join(lines)}")


def _answer(*command: str) -> list[str]:
    """The lines that a command prints; none if it fails, is missing or takes too long."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout.splitlines()
    return []
