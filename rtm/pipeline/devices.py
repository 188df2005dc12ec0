"""Whether the GPUs that a training asks for are here."""

from pathlib import Path

from rtm.config.experiments import Resources
from rtm.core.devices import gpu_count
from rtm.core.errors import UserError


def check_devices(name: str, needed: Resources, target: Path) -> bool:
    """Whether to train on GPUs; refuse a training whose GPUs are not here."""
    if needed.gpus and (found := gpu_count()) < needed.gpus:
        raise UserError(
            f"{name} needs {needed.gpus} {needed.gpu_model} GPUs for about {needed.hours:g} hours and this machine has "
            f"{found}; submit it with `snakemake --profile slurm {target}`."
        )
    return needed.gpus > 0
