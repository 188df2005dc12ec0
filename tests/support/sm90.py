"""Compile inductor's Triton kernels for a pretended H100 (sm_90), without a GPU. The kernels do not run."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes, _pop_mode_temporarily

H100 = SimpleNamespace(
    name="H100", major=9, minor=0, multi_processor_count=132, total_memory=80 << 30, warp_size=32,
    max_threads_per_multi_processor=2048, max_threads_per_block=1024, regs_per_multiprocessor=65536,
    shared_memory_per_block=49152, shared_memory_per_block_optin=232448, L2_cache_size=50 << 20, gcnArchName="",
)  # fmt: skip


class Driver:
    """Answers to Triton's questions about the GPU."""

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        return torch.cuda


@contextmanager
def compiling() -> Iterator[list[str]]:
    """Inside this block, `compile` of a module works on the pretended GPU. Yield the names of the compiled kernels."""
    import torch._inductor.compile_fx as inductor
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import PyCodeCache
    from triton.runtime import driver

    names: list[str] = []
    whole, inner = inductor.compile_fx, inductor.compile_fx_inner

    def kernel(_: AsyncCompile, name: str, source: str, device_str: str = "cuda") -> Any:
        made = getattr(PyCodeCache.load(source), name)
        if made.configs:  # a kernel of the same text was compiled before, and has none left
            made.configs = made.configs[:1]  # of the block sizes that a GPU would choose from, one
            made.precompile(warm_cache_only=True)
        names.append(name)
        return made

    def part(graph: Any, inputs: Any, **options: Any) -> Callable[[list[Any]], list[Any]]:
        outputs = graph.graph.find_nodes(op="output")[0].args[0]
        with _disable_current_modes():
            inner(graph, inputs, **options)
        values = [each.meta["val"] if isinstance(each, torch.fx.Node) else each for each in outputs]
        return _unrun(values)

    def compiled(graph: Any, inputs: Any, **options: Any) -> Any:
        with _disable_current_modes():
            return whole(graph, inputs, inner_compile=cast(Any, part), **options)

    compile_module = torch.nn.Module.compile

    def compile_unwatched(module: torch.nn.Module, **options: Any) -> None:
        """Switch the counting mode off during the call: the compiler does nothing while a mode sees all operations."""
        compile_module(module, **options)
        call = cast(Any, module._compiled_call_impl)

        def unwatched(*given: Any, **named: Any) -> Any:
            with _pop_mode_temporarily():
                return call(*given, **named)

        module._compiled_call_impl = unwatched

    answers = {
        "torch.cuda._get_device_properties": lambda *_: H100,
        "torch.cuda.get_device_capability": lambda *_: (9, 0),
        "torch.cuda.get_device_name": lambda *_: "H100",
        "torch.cuda.get_rng_state": lambda *_: torch.zeros(16, dtype=torch.uint8),
        "torch.cuda.set_rng_state": lambda *_: None,
        "torch.cuda.device_count": lambda: 1,
        "torch.cuda._exchange_device": lambda _: 0,
        "torch.cuda._maybe_exchange_device": lambda _: 0,
        "torch._inductor.runtime.triton_helpers.set_driver_to_gpu": lambda: None,
        "torch._inductor.fx_passes.joint_graph.lazy_init": lambda *_: None,  # it would try attention on the GPU
        "torch._inductor.compile_fx.compile_fx": compiled,
        "torch.nn.Module.compile": compile_unwatched,
    }
    driver.set_active(Driver())
    with ExitStack() as stack:
        for target, value in answers.items():
            stack.enter_context(mock.patch(target, value, create=True))
        stack.enter_context(mock.patch.object(AsyncCompile, "triton", kernel))
        stack.enter_context(torch._inductor.config.patch(joint_graph_constant_folding=False))  # would use the GPU
        yield names


def _unrun(values: list[Any]) -> Callable[[list[Any]], list[Any]]:
    """A replacement of the compiled function: it returns results of the right shapes."""

    def run(given: list[Any]) -> list[Any]:
        mode = next(each.fake_mode for each in given if isinstance(each, FakeTensor))
        given.clear()
        with mode:
            return [
                torch.empty_strided(v.shape, v.stride(), dtype=v.dtype, device=v.device) if isinstance(v, Tensor) else v
                for v in values
            ]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run
