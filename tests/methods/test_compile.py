"""Compiled training is eager training: same losses, no graph break, nothing compiled anew after the first round."""

from pathlib import Path

import pytest
import torch
from support import smoke_workspace
from torch._dynamo.utils import counters

from rtm.methods.base import Method
from rtm.methods.registry import build_method
from rtm.models.mappers import MLPMapper
from rtm.models.stylegan2.generator import StyleGenerator, Synthesis

EAGER = {"backend": "eager"}

pytestmark = [
    pytest.mark.slow(seconds=60),
    pytest.mark.filterwarnings("ignore:The .grad attribute"),  # the compiler looks at it itself
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of torch, which imports inductor
]


def started(folder: Path, name: str, compiled: bool, precision: str = "float32") -> Method:
    chosen = smoke_workspace.experiment(name, batch=16, compile=compiled, precision=precision)
    return build_method(smoke_workspace.setting(folder, chosen))


def losses(method: Method, steps: range) -> list[float]:
    return [float(method.step(step)["loss"]) for step in steps]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()
    counters.clear()


def test_no_part_uses_up_the_versions_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six stages in three states (trained, frozen below a gradient, without one) are eighteen graphs of one code."""
    compile_with = torch.nn.Module.compile
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **given: compile_with(self, **given | EAGER))
    generator = StyleGenerator(MLPMapper(8, 1), Synthesis(8, 128, 128, 4))
    generator.compile_parts()
    ws = torch.randn(2, generator.synthesis.num_ws, 8)
    for trains, graph in ((True, True), (False, True), (False, False)) * 2:
        generator.requires_grad_(trains)
        with torch.set_grad_enabled(graph):
            generator.synthesis(ws.clone().requires_grad_(graph))
    assert counters["stats"]["unique_graphs"] == 3 * len(generator.synthesis.stages)


@pytest.mark.parametrize("name", ["cifar10_imle_rtm", "cifar10_imle_mlp", "afhq_stylegan2_ada_rtm"])
def test_compiled_steps_equal_eager_ones(name: str, tmp_path: Path) -> None:
    """Twelve steps are four epochs of 48 images, each of which begins with a matching round."""
    eager = losses(started(tmp_path, name, compiled=False), range(12))
    method = started(tmp_path, name, compiled=True)
    compiled = losses(method, range(2))
    after_the_first = counters["stats"]["unique_graphs"]
    compiled += losses(method, range(2, 12))
    assert compiled == pytest.approx(eager, rel=2e-5)
    assert after_the_first > 0 and counters["stats"]["unique_graphs"] == after_the_first
    assert not counters["graph_break"] and not counters["unimplemented"]
