"""The GPUs of this machine: how many are usable, why the others are not, and whether a training has enough of them.

torch is imported only when a function is called.
"""

import ctypes
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from rtm.config.experiments import Resources
from rtm.core.devices import driver
from rtm.core.errors import UserError
from rtm.training.cluster import node_count

if TYPE_CHECKING:
    import torch

TRIM_THRESHOLD = -1
MMAP_THRESHOLD = -3  # glibc's mallopt
OLDEST_DRIVER = {"12": "525", "13": "580"}  # CUDA version: the oldest driver that runs its programs


def usable_gpus() -> int:
    """The number of usable GPUs. `device_count` alone would also count GPUs whose driver is too old for torch."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # hide torch's warning about an old driver, because `unusable` says what to do
        return torch.cuda.device_count() if torch.cuda.is_available() else 0


def unusable() -> str | None:
    """A sentence about GPUs of this machine that cannot be used; None if there are none."""
    import torch

    present = torch.cuda.device_count()
    if not present or usable_gpus():
        return None
    cuda = torch.version.cuda or "no CUDA"
    version = driver()
    oldest = OLDEST_DRIVER.get(cuda.partition(".")[0])
    if oldest and version and _numbers(version) < _numbers(oldest):
        return (
            f"{present} GPUs are here, but their driver {version} is too old: torch {torch.__version__} is built for "
            f"CUDA {cuda}, which needs driver {oldest} or newer; use a node with a newer driver, or install torch's "
            "wheel for an older CUDA (docs/clusters.md)."
        )
    return (
        f"{present} GPUs are here, but torch {torch.__version__} (CUDA {cuda}, driver {version or 'unknown'}) cannot "
        "use them; see whether `nvidia-smi` lists them and what CUDA_VISIBLE_DEVICES says."
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def choose(device: "torch.device") -> None:
    """Use this GPU in this process; on a CPU, keep freed memory for the next step."""
    import torch

    if device.type == "cpu":
        keep_memory()
    if device.type == "cuda":
        try:
            torch.cuda.set_device(device)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"{device} cannot be used ({reason}); `rtm doctor --gpu` says more.") from None


def keep_memory() -> None:
    """Let glibc keep large freed blocks, because every step needs them again and the kernel would clear their pages
    each time. Other C libraries have no such option."""
    if mallopt := getattr(ctypes.CDLL(None), "mallopt", None):
        mallopt(MMAP_THRESHOLD, 2**30)
        mallopt(TRIM_THRESHOLD, 2**31 - 1)


def check_devices(name: str, needed: Resources, target: Path) -> bool:
    """Return whether to train on GPUs; an error if this machine has too few GPUs for its node's share."""
    usable = usable_gpus() if needed.gpus or needed.any_device else 0
    if usable >= needed.gpus // node_count():
        return usable > 0
    many = "GPUs" if needed.gpus > 1 else "GPU"
    request = f"{name} needs {needed.gpus} {needed.gpu_model} {many} for about {needed.hours:g} hours"
    if problem := unusable():
        raise UserError(f"{request}. {problem}")
    ways = [f"submit it with `snakemake --profile slurm {target}`"]
    if usable:
        less = f"`rtm train ... --gpus {usable}`, `snakemake ... --config gpus={usable}`"
        ways.append(f"train it here for longer ({less})")
    raise UserError(f"{request} and this machine has {usable}; {', or '.join(ways)}.")
