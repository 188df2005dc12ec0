"""A pretended GPU. Its tensors have shape, type and device but no data, and the cost of every operation is counted.

Only the GPU is pretended. The CPU computes as usual, and a value that is read from the GPU is invented (`Gpu.found`).
torch's FakeTensorMode knows the shapes. `Gpu` sees every operation, as the device would, and counts floating-point
operations by precision, bytes read and written, kernel launches, waits of the CPU for the GPU (synchronisations), and
the memory that is in use at each moment.

The autograd engine asks the driver for GPUs in C++, so Python code cannot replace the answer. So this code runs in a
separate process, started inside `rtm.plan.driver.preloaded()`.
"""

import ctypes
import math
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor, TensorType, nn
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
    unset_fake_temporarily,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from rtm.plan.tally import Tally

DEVICES = 127  # as many as torch's own fake device guard has
BLOCK = 512  # the allocator rounds sizes up to a multiple of this
ROOT = str(Path(__file__).parents[1])
HERE = str(Path(__file__).parent)
UNWRITTEN = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_"}
RELABELLED = {"_unsafe_view", "detach_", "squeeze_", "unsqueeze_", "transpose_", "t_", "as_strided_", "is_same_size"}
DEVICE_OF = torch.ops.prim.device.default
CUDA = torch.device("cuda", 0)


class Gpu(TorchDispatchMode):
    """The counts of one pretended GPU. Operations are added to `tallies` under the innermost `scope`."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tallies: dict[str, Tally] = {}
        self.now = 0  # bytes that are allocated now
        self.found: Callable[[Tensor], int] = lambda mask: 1  # the assumed number of true entries of a mask
        self._scopes = ["other"]
        self._storages: dict[int, tuple[Any, int]] = {}
        self._pinned: weakref.WeakSet[Any] = weakref.WeakSet()
        self._known: dict[Any, Any] = {}
        self._lock = threading.RLock()
        self.fake = FakeTensorMode(allow_fallback_kernels=False, allow_non_fake_inputs=True)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        self._scopes.append(name)
        self.tally.peak = max(self.tally.peak, self.now)
        try:
            yield
        finally:
            self._scopes.pop()

    @property
    def tally(self) -> Tally:
        return self.tallies.setdefault(self._scopes[-1], Tally())

    def held(self, tensors: Any) -> int:
        """Bytes of the memory behind GPU tensors; shared memory counts once."""
        on = {t.untyped_storage()._cdata for t in tree_leaves(tensors) if isinstance(t, Tensor) and _is_on_gpu(t)}
        return sum(self._storages[key][1] for key in on if key in self._storages)

    def replayed(self, call: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """The same function, but it runs only once for each set of argument shapes. Later calls only add its cost."""
        known: dict[Any, tuple[Tally, int, Any, torch.dtype]] = {}

        def replay(*given: Any) -> Tensor:
            key = tuple((each.shape, each.dtype) if isinstance(each, Tensor) else each for each in given)
            before = self.now
            if key not in known:
                with self.scope(f"replayed {len(self._scopes)}"):  # a unique name, because calls may be nested
                    self.tallies[self._scopes[-1]] = Tally()
                    made = call(*given)
                    known[key] = self.tally, self.tally.peak - before, (made.shape, made.stride()), made.dtype
                    del made
            tally, rise, place, dtype = known[key]
            self.tallies[self._scopes[-1]] = replace(self.tally + tally, peak=max(self.tally.peak, before + rise))
            return torch.empty_strided(*place, dtype=dtype, device="cuda")

        return replay

    # operations

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is DEVICE_OF:
            return args[0].fake_device
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]
        given = _tensors(args) + _tensors(kwargs.values())
        device = kwargs.get("device")
        to_gpu = device is not None and torch.device(device).type == "cuda"
        if not to_gpu and not any(isinstance(tensor, FakeTensor) for tensor in given):
            with unset_fake_temporarily():
                return self._on_cpu(func, name, args, kwargs)
        answered, out = self._invented(func, name, args, kwargs, to_gpu)
        if not answered:
            out = self._result_of(func, name, args, kwargs)
        made = _tensors((out,))
        for tensor in made:
            self._remember(tensor)
        if not answered and not _is_free(func):
            self._enter(func, name, args, kwargs, given, made, out)
        return out

    def _result_of(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, with the shape that torch computes. For known shapes, torch is not asked again."""
        schema = func._schema
        if _looks(func) and _is_on_gpu(args[0]):
            return self._view(func, args, kwargs)
        free, changes = _is_free(func), bool(schema.arguments) and schema.arguments[0].is_write
        if free or (schema.is_mutable and not changes):
            return self._shape_of(func, name, args, kwargs)
        key = (func, _described(args), _described(kwargs.items()))
        if (known := self._known.get(key)) is None:
            out = self._shape_of(func, name, args, kwargs)
            fresh = all(isinstance(each, FakeTensor) and not each.storage_offset() for each in _tensors((out,)))
            self._known[key] = [(each.shape, each.stride(), each.dtype) for each in _tensors((out,))] if fresh else ()
            return out
        if changes:
            return args[0] if schema.returns else None
        if len(known) != len(schema.returns) or not all(isinstance(each.type, TensorType) for each in schema.returns):
            return self._shape_of(func, name, args, kwargs)
        with in_kernel_invocation_manager(self.fake):
            made = [torch.empty_strided(*place, dtype=dtype, device="meta") for *place, dtype in known]
        placed = tuple(FakeTensor(self.fake, each, CUDA) for each in made)
        return placed[0] if len(placed) == 1 else placed

    def _view(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A view of the same memory. Without torch's checks and caches it is five times as fast."""
        with in_kernel_invocation_manager(self.fake):
            seen = func(*args, **kwargs)
        if isinstance(seen, Tensor):
            return FakeTensor(self.fake, seen, CUDA)
        return [FakeTensor(self.fake, each, CUDA) for each in seen]

    def _on_cpu(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "_pin_memory":
            pinned = args[0].clone()
            self._pinned.add(pinned.untyped_storage())
            return pinned
        if name == "is_pinned":
            return args[0].untyped_storage() in self._pinned
        if name in ("normal_", "uniform_"):  # initial weights: no cost depends on them, and drawing is slow
            return args[0].zero_()
        if name == "randn":
            return torch.zeros(args[0], dtype=kwargs.get("dtype"))
        return func(*args, **kwargs)

    def _invented(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], to_gpu: bool
    ) -> tuple[bool, Any]:
        """Whether the operation copies between CPU and GPU, and in this case its result."""
        if name == "_local_scalar_dense":
            self._wait()
            return True, True if args[0].dtype == torch.bool else 1.0 if args[0].is_floating_point() else 1
        if name in ("equal", "is_nonzero"):
            self._wait()
            return True, True
        if name == "nonzero":
            self._wait()
            count = self.found(args[0])
            return True, torch.empty(count, args[0].dim(), dtype=torch.int64, device=args[0].device)
        if name in ("_unique2", "unique_dim", "unique_consecutive"):
            self._wait()
            empty = torch.empty(0, dtype=torch.int64, device=args[0].device)
            return True, (torch.empty_like(args[0].flatten()), empty, empty)
        if name == "_to_copy" and to_gpu and not isinstance(args[0], FakeTensor):
            return True, self._upload(args[0], kwargs)
        if name == "_to_copy" and kwargs.get("device") is not None and not to_gpu:
            return True, self._download(args[0], kwargs)
        if name == "copy_" and isinstance(args[0], FakeTensor) != isinstance(args[1], FakeTensor):
            self._cross(args[1], args[0], pinned=self._is_pinned(args[1]) and bool((args[2:] or (False,))[0]))
            return True, args[0]
        return False, None

    def _upload(self, source: Tensor, kwargs: dict[str, Any]) -> Tensor:
        target = torch.empty(source.shape, dtype=kwargs.get("dtype") or source.dtype, device=kwargs["device"])
        if source.dim() and source.is_contiguous(memory_format=torch.channels_last) and not source.is_contiguous():
            target = target.contiguous(memory_format=torch.channels_last)
        self._cross(source, target, pinned=self._is_pinned(source) and bool(kwargs.get("non_blocking")))
        return target

    def _download(self, source: Tensor, kwargs: dict[str, Any]) -> Tensor:
        with unset_fake_temporarily():
            target = torch.zeros(source.shape, dtype=kwargs.get("dtype") or source.dtype)
        self._cross(source, target, pinned=False)
        return target

    def _is_pinned(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage() in self._pinned

    def _cross(self, source: Tensor, target: Tensor, pinned: bool) -> None:
        self.tally.copied += source.numel() * source.element_size()
        if not pinned:
            self._wait()

    def _shape_of(self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name in ("index", "index_put_", "index_put", "_index_put_impl_"):
            places = [self._places(place) for place in args[1]]
            args = (args[0], places, *args[2:])
        if name == "convolution_backward" and args[9] > 1:  # torch's shape function would loop over all groups
            (_, x, weight, _), mask = args[:4], args[10]
            bias = torch.empty(weight.shape[0], dtype=weight.dtype, device=weight.device) if mask[2] else None
            return torch.empty_like(x) if mask[0] else None, torch.empty_like(weight) if mask[1] else None, bias
        if name == "cudnn_grid_sampler":  # torch has no shape functions for these two
            return args[0].new_empty(*args[0].shape[:2], *args[1].shape[1:3])
        if name == "cudnn_grid_sampler_backward":
            return torch.empty_like(args[0]), torch.empty_like(args[1])
        return func(*args, **kwargs)

    def _places(self, place: Tensor | None) -> Tensor | None:
        """Indices for a mask; indices that are on the CPU are copied to the GPU."""
        if place is None:
            return None
        if not isinstance(place, FakeTensor):
            return self._upload(place, {"device": "cuda"})
        if place.dtype != torch.bool:
            return place
        self._wait()
        return torch.empty(self.found(place), dtype=torch.int64, device=place.device)

    # counting

    def _remember(self, tensor: Tensor) -> None:
        if not _is_on_gpu(tensor):
            return
        storage = tensor.untyped_storage()
        key = storage._cdata
        with self._lock:
            if key in self._storages:
                return
            size = -(-storage.nbytes() // BLOCK) * BLOCK
            self._storages[key] = weakref.ref(storage, lambda _: self._forget(key)), size
            self.now += size
            self.tally.peak = max(self.tally.peak, self.now)

    def _forget(self, key: int) -> None:
        with self._lock:
            self.now -= self._storages.pop(key)[1]

    def _wait(self) -> None:
        self.tally.waits[_place()] += 1

    def _enter(
        self, func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], given: list[Tensor],
        made: list[Tensor], out: Any,
    ) -> None:  # fmt: skip
        moved = sum(t.numel() * t.element_size() for t in [*given, *made] if _is_on_gpu(t))
        flops = _flops(func, name, args, kwargs, out)
        kind = next((t.dtype for t in given if t.is_floating_point()), torch.float32)
        if any(t.dtype == torch.float64 for t in [*given, *made] if t.dim()):
            self.tally.doubles[_place()] += 1
        self.tally.kernels[_precision(kind, name) if flops else "", flops, moved] += 1


@cache
def _is_free(func: Any) -> bool:
    """Whether an operation does nothing on the GPU: it only makes a view, or it writes nothing."""
    return _looks(func) or func._schema.name.partition("::")[2] in UNWRITTEN | RELABELLED


@cache
def _looks(func: Any) -> bool:
    return not func._schema.is_mutable and any(each.alias_info for each in func._schema.returns)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among an operation's arguments or results."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found


def _described(values: Iterable[Any]) -> tuple[Any, ...]:
    """The arguments as a hashable description on which the result's shape depends."""
    return tuple(
        (each.shape, each.stride(), each.dtype, isinstance(each, FakeTensor))
        if isinstance(each, Tensor)
        else _described(each)
        if isinstance(each, list | tuple)
        else (type(each), each)
        for each in values
    )


def _is_on_gpu(tensor: Tensor) -> bool:
    return isinstance(tensor, FakeTensor) and tensor.fake_device.type == "cuda"


def _place() -> str:
    """The line of rtm/ that asked for the operation."""
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(ROOT) and not file.startswith(HERE):
            return f"{Path(file).relative_to(ROOT)}:{frame.f_lineno}"
        frame = frame.f_back
    return "torch"


def _precision(kind: torch.dtype, name: str) -> str:
    """The number format in which the device multiplies."""
    if kind != torch.float32:
        return str(kind).removeprefix("torch.")
    short = torch.backends.cudnn.allow_tf32 if "conv" in name else torch.get_float32_matmul_precision() != "highest"
    return "tf32" if short else "float32"


def _flops(func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> float:
    """FLOPs of matrix products and convolutions (two for each multiplication); other operations count only by bytes."""
    if name == "convolution":
        return _convolved(args[0], args[1], out, args[6])
    if name == "convolution_backward":
        mask = args[10]
        return float(mask[0] + mask[1]) * _convolved(args[1], args[2], args[0], args[7])
    count = flop_registry.get(func.overloadpacket)
    return float(count(*args, **kwargs, out_val=out)) if count else 0.0


def _convolved(x: Tensor, weight: Tensor, out: Tensor, transposed: bool) -> float:
    """FLOPs of a convolution: one filter product for each output number (each input number, if transposed)."""
    return 2.0 * (x if transposed else out).numel() * math.prod(weight.shape[1:])


# the process


@dataclass(frozen=True)
class Group:
    """The first of `world` pretended processes. The bytes that it would send are counted."""

    gpu: Gpu
    world: int

    def all_reduce(self, tensor: Tensor, *_: Any, **__: Any) -> None:
        size = tensor.numel() * tensor.element_size()
        self.gpu.tally.exchanged += round(2 * size * (self.world - 1) / self.world)  # around a ring

    def all_gather(self, parts: list[Tensor], tensor: Tensor, *_: Any, **__: Any) -> None:
        self.gpu.tally.exchanged += tensor.numel() * tensor.element_size() * (self.world - 1)


@contextmanager
def pretended(world: int = 1) -> Iterator[Gpu]:
    """Pretend one of `world` GPUs. The process must have been started inside `preloaded()`."""
    driver, gpu = ctypes.CDLL("libcuda.so.1"), Gpu()
    with ExitStack() as stack:
        for target, value in (*_answers(), *_answers_of(Group(gpu, world))):
            stack.enter_context(mock.patch(target, value))
        stack.enter_context(gpu.fake)  # replaces torch's GPU guard by a fake one, so it must come before the GPUs
        driver.pretend(DEVICES)
        stack.callback(driver.pretend, 0)
        stack.enter_context(gpu)
        yield gpu


def _answers() -> list[tuple[str, Any]]:
    """Replacements for torch's questions to a GPU, with the answers of an H100."""

    def convolution(*_: Any, transposed: bool = False, **__: Any) -> Any:
        backend = torch._C._ConvBackend  # type: ignore[attr-defined]
        return backend.CudnnTranspose if transposed else backend.Cudnn

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        attend = torch.ops.aten._scaled_dot_product_efficient_attention  # torch's choice for float32
        return cast(Tensor, attend(query, key, value, None, query.requires_grad)[0])

    return [
        ("torch._subclasses.fake_tensor.FakeTensorMode.avoid_device_init", True),
        ("torch.cuda._lazy_init", lambda: None),
        ("torch.cuda.is_bf16_supported", lambda *_, **__: True),
        ("torch.cuda.is_current_stream_capturing", lambda: False),
        ("torch.cuda.set_device", lambda *_: None),
        ("torch.cuda.current_device", lambda: 0),
        ("torch.cuda.synchronize", lambda *_: None),
        ("torch._C._select_conv_backend", convolution),
        ("torch.nn.functional.scaled_dot_product_attention", attention),
        ("torch.nn.Module._apply", _apply),
    ]


def _answers_of(group: Group) -> list[tuple[str, Any]]:
    return [
        ("torch.distributed.is_initialized", lambda: group.world > 1),
        ("torch.distributed.get_rank", lambda *_: 0),
        ("torch.distributed.get_world_size", lambda *_: group.world),
        ("torch.distributed.all_reduce", group.all_reduce),
        ("torch.distributed.all_gather", group.all_gather),
    ]


def _apply(module: nn.Module, change: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
    """Module.to with new parameters: torch would replace the data of old ones, which FakeTensors do not allow."""
    for child in module.children() if recurse else ():
        _apply(child, change)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            with torch.no_grad():
                module._parameters[name] = nn.Parameter(change(parameter), parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = change(buffer)
    return module
