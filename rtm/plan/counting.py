"""Count the cost of operations on tensors that have shape and type, and no data.

torch's FakeTensorMode computes the shapes. `Meter` sees every operation as the device would: floating-point operations
by precision, bytes read and written, launches, messages between processes, and the memory in use at each moment. A
value that the CPU reads is invented.
"""

import math
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from rtm.plan.tally import Tally

BLOCK = 512  # the GPU's allocator rounds sizes up to a multiple of this
UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_", "detach_"}
RESHAPED = {"_unsafe_view", "squeeze_", "unsqueeze_", "transpose_", "t_", "as_strided_", "lift_fresh"}


class Meter(TorchDispatchMode):
    """Adds the cost of each operation to the tally of the innermost scope."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tallies: dict[str, Tally] = {}
        self.in_use = 0  # bytes
        self.true_share = 0.0  # of the entries of a one-dimensional mask; other masks have one true entry
        self._scopes = ["other"]
        self._sizes: dict[int, int] = {}  # bytes of each live storage

    @property
    def tally(self) -> Tally:
        return self.tallies.setdefault(self._scopes[-1], Tally())

    @contextmanager
    def scope(self, name: str) -> Iterator[Tally]:
        self._scopes.append(name)
        self.tally.peak = max(self.tally.peak, self.in_use)
        try:
            yield self.tally
        finally:
            self._scopes.pop()

    def bytes_of(self, tensors: Any) -> int:
        """The memory behind tensors; shared memory counts once."""
        storages = {_key(leaf) for leaf in tree_leaves(tensors) if isinstance(leaf, Tensor)}
        return sum(self._sizes.get(key, 0) for key in storages)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":  # a question, no operation
            return func(*args, **kwargs)
        if func.namespace == "c10d":
            self.tally.exchanged += _sent_bytes(func, args)
            return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        out = self._invented(name, args)
        if out is None:
            out = func(*args, **kwargs)
        results = _tensors((out,))
        for tensor in results:
            self._remember(tensor)
        if not _is_free(func):
            self._count(func, name, args, kwargs, out, results)
        return out

    def _invented(self, name: str, args: tuple[Any, ...]) -> Any:
        """The result of an operation that depends on data."""
        if name == "_local_scalar_dense":
            return _value(args[0].dtype)
        if name == "equal":
            return True
        if name == "nonzero":
            return torch.empty(self._true_entries(args[0]), args[0].dim(), dtype=torch.int64)
        if name == "_unique2":
            return torch.empty_like(args[0]), *torch.empty(2, 0, dtype=torch.int64).unbind()
        if name == "convolution_backward" and args[9] > 1:  # torch would loop over all groups
            return _gradients(args[1], args[2], args[10])
        if name in ("index", "index_put_") and any(_is_mask(place) for place in args[1]):
            places = [self._places(place) for place in args[1]]
            return getattr(torch.ops.aten, name)(args[0], places, *args[2:])
        return None

    def _true_entries(self, mask: Tensor) -> int:
        return math.ceil(len(mask) * self.true_share) if mask.dim() == 1 else 1

    def _places(self, place: Tensor | None) -> Tensor | None:
        if place is None or not _is_mask(place):
            return place
        return torch.empty(self._true_entries(place), dtype=torch.int64)

    def _remember(self, tensor: Tensor) -> None:
        key = _key(tensor)
        if key in self._sizes:
            return
        storage = tensor.untyped_storage()
        size = math.ceil(storage.nbytes() / BLOCK) * BLOCK
        self._sizes[key] = size
        weakref.finalize(storage, self._forget, key)
        self.in_use += size
        self.tally.peak = max(self.tally.peak, self.in_use)

    def _forget(self, key: int) -> None:
        self.in_use -= self._sizes.pop(key)

    def _count(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any, results: list[Tensor]
    ) -> None:
        operands = _tensors(args) + _tensors(kwargs.values())
        moved = _bytes(operands + results)
        flops = _flops(func, name, args, kwargs, out)
        precision = _precision(operands, name) if flops else ""
        self.tally.kernels[precision, flops, moved] += 1


@contextmanager
def counting(world: int = 1) -> Iterator[Meter]:
    """Inside this block, tensors have no data, and this process is the first of `world` that exchange nothing."""
    meter = Meter()
    if world > 1:
        dist.init_process_group("fake", rank=0, world_size=world, store=FakeStore())
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), meter:
            yield meter
    finally:
        if world > 1:
            dist.destroy_process_group()


def _key(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _value(kind: torch.dtype) -> bool | float | int:
    if kind == torch.bool:
        return True
    return 1.0 if kind.is_floating_point else 1


def _is_mask(place: Tensor | None) -> bool:
    return place is not None and place.dtype == torch.bool


@cache
def _is_free(func: Any) -> bool:
    """Whether an operation does nothing on a device: it only makes a view, or it writes nothing."""
    is_view = not func._schema.is_mutable and any(result.alias_info for result in func._schema.returns)
    return is_view or func._schema.name.partition("::")[2] in UNWRITTEN | RESHAPED


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among an operation's arguments or results."""
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, list | tuple):
            tensors += _tensors(value)
    return tensors


def _gradients(x: Tensor, weight: Tensor, wanted: list[bool]) -> list[Tensor | None]:
    """Empty gradients of a convolution's input, weight and bias."""
    operands = (x, weight, weight[:, 0, 0, 0])
    return [
        torch.empty_like(operand) if is_wanted else None for operand, is_wanted in zip(operands, wanted, strict=True)
    ]


def _sent_bytes(func: Any, args: tuple[Any, ...]) -> int:
    """The bytes that one process sends: a sum goes around a ring, and gathering sends a copy to each other process."""
    others = dist.get_world_size() - 1
    if func._schema.name == "c10d::barrier":
        return 0
    if func._schema.name == "c10d::allreduce_":
        size = _bytes(args[0])
        return round(2 * size * others / (others + 1))
    return others * _bytes(args[1])


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors)


def _precision(operands: list[Tensor], name: str) -> str:
    """The number format in which a GPU multiplies."""
    kind = next((tensor.dtype for tensor in operands if tensor.is_floating_point()), torch.float32)
    if kind != torch.float32:
        return str(kind).removeprefix("torch.")
    if "conv" in name:
        return "tf32" if torch.backends.cudnn.allow_tf32 else "float32"
    return "float32" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _flops(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float:
    """FLOPs of matrix products and convolutions (two for each multiplication); other operations count only by bytes."""
    if name == "convolution":
        return _convolution_flops(args[0], args[1], out, args[6])
    if name == "convolution_backward":
        wanted = args[10]  # whether the gradients of input and of weight are wanted
        return float(wanted[0] + wanted[1]) * _convolution_flops(args[1], args[2], args[0], args[7])
    formula = flop_registry.get(func.overloadpacket)
    return float(formula(*args, **kwargs, out_val=out)) if formula else 0.0


def _convolution_flops(x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> float:
    """One filter product for each output number, or for each input number if transposed."""
    products = x.numel() if transposed else out.numel()
    return 2.0 * products * math.prod(weight.shape[1:])
