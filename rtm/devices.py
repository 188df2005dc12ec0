"""Whether the GPUs that a training asks for are here; torch is imported only to look."""

from pathlib import Path

from rtm.config.experiments import Resources
from rtm.errors import UserError


def present() -> int:
    """How many GPUs this machine, or the job on it, has."""
    import torch

    return torch.cuda.device_count()


def check_devices(name: str, needed: Resources, target: Path) -> bool:
    """Whether to train on GPUs; refuse a training whose GPUs are not here."""
    if needed.gpus and (found := present()) < needed.gpus:
        raise UserError(
            f"{name} needs {needed.gpus} {needed.gpu_model} GPUs for about {needed.hours:g} hours and this machine has "
            f"{found}; submit it with `snakemake --profile slurm {target}`."
        )
    return needed.gpus > 0
