"""Check that this machine has the GPUs that a training needs."""

from pathlib import Path

from rtm.config.experiments import Resources
from rtm.core.devices import gpu_count
from rtm.core.errors import UserError


def check_devices(name: str, needed: Resources, target: Path) -> bool:
    """Return whether to train on GPUs; an error if this machine has too few."""
    if needed.gpus and (found := gpu_count()) < needed.gpus:
        raise UserError(
            f"{name} needs {needed.gpus} {needed.gpu_model} GPUs for about {needed.hours:g} hours and this machine has "
            f"{found}; submit it with `snakemake --profile slurm {target}`."
        )
    return needed.gpus > 0
