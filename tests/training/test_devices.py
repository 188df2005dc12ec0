"""Only usable GPUs count; a sentence tells what is wrong with the others."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support import PARAMS, ROOT, smoke_workspace
from support.checkpoints import IMLE
from support.gpus import machine

from rtm.config import load
from rtm.config.experiments import Resources
from rtm.core.errors import UserError
from rtm.pipeline.snakemake import Plan
from rtm.training import devices
from rtm.training.devices import check_devices

ASKED = Resources(gpus=4, cpus=32, mem_gb=128, hours=8)


def test_usable_gpus_count(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, 4, usable=True, driver="580.95.05")
    assert devices.usable_gpus() == 4
    assert devices.unusable() is None
    assert check_devices("x", ASKED, Path("t")) is True
    either = Resources(gpus=0, any_device=True, cpus=1, mem_gb=3, hours=1)
    assert check_devices("x", either, Path("t")) is True
    assert check_devices("x", either.model_copy(update={"any_device": False}), Path("t")) is False
    machine(monkeypatch, 0, usable=False)
    assert check_devices("x", either, Path("t")) is False
    machine(monkeypatch, 2, usable=True)
    with pytest.raises(UserError, match="this machine has 2; submit it with `snakemake --profile slurm t`"):
        check_devices("x", ASKED, Path("t"))
    with pytest.raises(UserError, match=r"or train it here for longer \(`rtm train ... --gpus 2`, .*gpus=2`\)"):
        check_devices("x", ASKED, Path("t"))
    assert check_devices("x", ASKED.at_most(2), Path("t")) is True


def test_snakemake_keeps_trainings_within_the_gpus_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """`--config gpus=2`: a training of four GPUs gets two for twice the hours; a training of one GPU stays the same."""
    monkeypatch.chdir(ROOT)
    workflow = SimpleNamespace(is_main_process=True, executor_plugin=None)
    given, asked = (Plan(workflow, lambda path: path, site) for site in ({"gpus": "2"}, {}))

    def of(plan: Plan, experiment: str) -> tuple[object, ...]:
        wildcards: Any = SimpleNamespace(root="", experiment=experiment, seed=0)
        resources = plan.resources("train")
        return resources["gpu"](wildcards), resources["runtime"](wildcards), plan.fewer("train")(wildcards)

    assert of(asked, "cifar10_imle_rtm") == (4, 140 * 60, "")
    assert of(given, "cifar10_imle_rtm") == (2, 280 * 60, "--gpus 2")
    assert of(given, "shells_imle_rtm") == of(asked, "shells_imle_rtm") == (1, 17 * 60, "")


def test_missing_gpus_are_refused_at_once() -> None:
    paper = load("paper", PARAMS).experiments["cifar10_imle_rtm"]
    if torch.cuda.device_count() < 4:
        with pytest.raises(UserError, match=r"needs 4 h100 GPUs for about 140 hours.*snakemake --profile slurm x"):
            check_devices(paper.name, paper.recipe.resources, Path("x"))
    assert check_devices(IMLE, smoke_workspace.experiment(IMLE).recipe.resources, Path("x")) is False


@pytest.mark.parametrize(
    ("driver", "cuda", "said"),
    [
        ("550.54.15", "13.0", "driver 550.54.15 is too old: .* CUDA 13.0, which needs driver 580 or newer"),
        ("515.1", "12.6", "which needs driver 525 or newer"),
        ("580.95.05", "13.0", "cannot use them; see whether `nvidia-smi` lists them"),
        (None, "13.0", "driver unknown"),
    ],
)
def test_an_old_driver_is_named(
    driver: str | None,
    cuda: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine(monkeypatch, 4, usable=False, driver=driver, cuda=cuda)
    assert devices.usable_gpus() == 0
    with pytest.raises(UserError, match=rf"x needs 4 h100 GPUs for about 8 hours. 4 GPUs are here, but .*{said}"):
        check_devices("x", ASKED, Path("t"))


def test_a_gpu_that_cannot_be_chosen_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: torch.device) -> None:
        raise RuntimeError("CUDA error: the driver is insufficient\nCompile with TORCH_USE_CUDA_DSA")

    monkeypatch.setattr(torch.cuda, "set_device", broken)
    with pytest.raises(UserError, match=r"cuda:0 cannot be used \(CUDA error: the driver is insufficient\); `rtm doc"):
        devices.choose(torch.device("cuda", 0))


HELD = """
import ctypes
from pathlib import Path
from rtm.training.devices import keep_memory
{call}
libc = ctypes.CDLL(None)
libc.malloc.restype, size = ctypes.c_void_p, 200 << 20
block = ctypes.c_void_p(libc.malloc(ctypes.c_size_t(size)))
ctypes.memset(block, 1, size)
libc.free(block)
print(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's option")
def test_memory_of_a_step_is_kept_for_the_next() -> None:
    """In separate processes, because the option stays for the rest of a process."""
    calls = ("pass", "keep_memory()")
    run = [[sys.executable, "-c", HELD.format(call=call)] for call in calls]
    given_back, kept = (int(subprocess.check_output(each, text=True)) >> 10 for each in run)
    assert kept > 200 > given_back
