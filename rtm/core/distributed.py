"""One process or many: the few operations that data-parallel training needs."""

import os
from collections.abc import Iterable
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn

PATIENCE = timedelta(hours=1)  # long, because the other processes wait while the first one measures


def rank() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    return dist.get_world_size() if dist.is_initialized() else 1


def start(use_gpu: bool) -> torch.device:
    """Join the processes that torchrun started, if any; return the device of this process, to be chosen."""
    if "RANK" in os.environ and not dist.is_initialized():
        dist.init_process_group("nccl" if use_gpu else "gloo", timeout=PATIENCE)
    if not use_gpu:
        return torch.device("cpu")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))


def stop() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def share(batch: Tensor) -> Tensor:
    """This process's part of a global batch. The batch must divide evenly among the processes."""
    return batch.chunk(world())[rank()]


def average_gradients(modules: Iterable[nn.Module]) -> None:
    """Mean over the processes, in one message; a parameter without gradient counts as zero."""
    if world() == 1:
        return
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= world()
    for parameter, part in zip(parameters, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        parameter.grad = torch.empty_like(parameter).copy_(part.view_as(parameter))  # keeps its memory format


def mean(value: Tensor) -> Tensor:
    if world() > 1:
        value = value.clone()
        dist.all_reduce(value)
        value /= world()
    return value


def any_of(flag: bool, device: torch.device) -> bool:
    """Whether the flag is set in any process; every process gets the same answer."""
    if world() == 1:
        return flag
    votes = torch.tensor(float(flag), device=device)
    dist.all_reduce(votes, dist.ReduceOp.MAX)
    return bool(votes)


def wait() -> None:
    """Until all processes are here."""
    if world() > 1:
        dist.barrier()


def gather(value: Tensor) -> list[Tensor]:
    if world() == 1:
        return [value]
    parts = [torch.empty_like(value) for _ in range(world())]
    dist.all_gather(parts, value.contiguous())
    return parts
