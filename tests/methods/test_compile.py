"""Compiled training equals eager training: same losses, no graph break, no new compilation after the first round."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from support import smoke_workspace
from torch._dynamo.utils import counters

from rtm.methods.base import Method
from rtm.methods.imle.matching import Round
from rtm.methods.imle.method import ImleMethod
from rtm.methods.registry import build_method
from rtm.models.mappers import MLPMapper
from rtm.models.stylegan2.generator import StyleGenerator, Synthesis

GRAPHS = "aot_eager_decomp_partition"  # the compiler without writing kernels: a third of its time

pytestmark = [
    pytest.mark.slow(seconds=35),
    pytest.mark.filterwarnings("ignore:The .grad attribute"),  # the compiler itself reads it
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's, when it imports inductor
    pytest.mark.filterwarnings("ignore:CUTLASS backend is not supported"),  # only for GPUs; the C++ wrapper warns
]


def started(folder: Path, name: str, compiled: bool, precision: str = "float32") -> Method:
    chosen = smoke_workspace.experiment(name, batch=16, compile=compiled, precision=precision)
    return build_method(smoke_workspace.setting(folder, chosen))


def losses(method: Method, steps: range) -> list[float]:
    return [float(method.step(step)["loss"]) for step in steps]


def match_alike(eager: Method, compiled: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round of the compiled generator must find matches at the same distances as the eager one. Then it trains on the
    eager generator's pairs, because untrained samples are so similar that rounding decides which is nearest."""
    if isinstance(eager, ImleMethod) and isinstance(compiled, ImleMethod):
        found: list[Round] = []
        search = eager.matching.round
        again = compiled.matching.round

        def remembered(*given: Any) -> Round:
            found.append(search(*given))
            return found[-1]

        def checked(*given: Any) -> Round:
            expected = found.pop(0)
            torch.testing.assert_close(again(*given).distances, expected.distances, rtol=2e-3, atol=0)
            return expected

        monkeypatch.setattr(eager.matching, "round", remembered)
        monkeypatch.setattr(compiled.matching, "round", checked)


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Processes that compile into one folder at the same time may read each other's unfinished files. All kernels of a
    graph go into one C++ file, because g++ needs as long for a file's headers as for a kernel. The kernels use no
    vector instructions and no optimisation."""
    from torch._inductor import config

    simple = {"cpp_wrapper": True, "cpp.simdlen": 1, "cpp.vec_isa_ok": True}  # otherwise a test compilation checks it
    with pytest.MonkeyPatch.context() as patched, config.patch(simple):
        patched.setattr("torch._inductor.cpp_builder._get_optimization_cflags", lambda *_: (["O0"], []))
        patched.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
        yield


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()
    counters.clear()


def compile_with(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **given: plain(self, **given | {"backend": backend}))


def test_no_part_uses_up_the_versions_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six stages in three states (trained, frozen but with a gradient, without a gradient) make eighteen graphs of the
    same code."""
    compile_with("eager", monkeypatch)
    generator = StyleGenerator(MLPMapper(8, 1), Synthesis(8, 128, 128, 4))
    generator.compile_parts()
    ws = torch.randn(2, generator.synthesis.num_ws, 8)
    for trains, graph in ((True, True), (False, True), (False, False)) * 2:
        generator.requires_grad_(trains)
        with torch.set_grad_enabled(graph):
            generator.synthesis(ws.clone().requires_grad_(graph))
    assert counters["stats"]["unique_graphs"] == 3 * len(generator.synthesis.stages)


@pytest.mark.parametrize(
    ("name", "backend"),
    [("cifar10_imle_rtm", "inductor"), ("shells_imle_mlp", GRAPHS), ("afhq_stylegan2_ada_rtm", GRAPHS)],
    ids=["rtm", "residual", "gan"],
)
def test_compiled_steps_equal_eager_ones(
    name: str,
    backend: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve steps are four epochs of 48 images, and each epoch begins with a matching round. Kernels are compiled only
    for the recipe that asks for compilation; the other recipes allow it."""
    compile_with(backend, monkeypatch)
    reference, method = (started(tmp_path, name, compiled) for compiled in (False, True))
    match_alike(reference, method, monkeypatch)
    eager = losses(reference, range(12))
    compiled = losses(method, range(2))
    after_the_first = counters["stats"]["unique_graphs"]
    compiled += losses(method, range(2, 12))
    assert compiled[:3] == pytest.approx(eager[:3], rel=1e-5)
    assert compiled == pytest.approx(eager, rel=5e-4)  # Adam magnifies the rounding of gradients near zero
    assert after_the_first > 0
    assert counters["stats"]["unique_graphs"] == after_the_first
    assert not counters["graph_break"]
    assert not counters["unimplemented"]
