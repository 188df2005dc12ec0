"""The mappers against a literal transcription of Algorithm 1, and the paper's parameter counts."""

import copy
import itertools
import math
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

import rtm
from rtm import RTM, MLPMapper
from rtm.core.errors import UserError
from rtm.models.layers import Linear, compile_part, parameters, relative_change

Weights = Mapping[str, Tensor]


def reference_norm(h: Tensor, axis: int, eps: float = 1e-5) -> Tensor:
    return h / torch.sqrt((h**2).mean(axis, keepdim=True) + eps)


def reference_swiglu(h: Tensor, weights: Weights, name: str) -> Tensor:
    gate, up = torch.chunk(h @ weights[f"{name}.gate_up.weight"].T, 2, dim=-1)
    return (torch.sigmoid(gate) * gate * up) @ weights[f"{name}.down.weight"].T


def reference_attention(
    h: Tensor,
    weights: Weights,
    name: str,
    heads: int,
    rope: bool,
) -> Tensor:
    """Attention with the rotation as a complex product."""
    q, k, v = (
        (h @ weights[f"{name}.qkv.weight"].T)
        .unflatten(2, (3, heads, -1))
        .permute(
            2,
            0,
            3,
            1,
            4,
        )
    )
    if rope:
        tokens, size = q.shape[-2:]
        frequency = 1e4 ** (-torch.arange(size // 2, dtype=h.dtype) / (size // 2))
        angle = torch.arange(tokens)[:, None] * frequency
        turn = torch.polar(torch.ones_like(angle), angle)
        turned = [torch.complex(*x.chunk(2, -1)) * turn for x in (q, k)]
        q, k = (torch.cat([x.real, x.imag], -1) for x in turned)
    weight = torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1)
    mixed: Tensor = (weight @ v).transpose(1, 2).flatten(2)
    return mixed @ weights[f"{name}.out.weight"].T


def reference_block(a: Tensor, b: Tensor, weights: Weights, options: dict[str, Any]) -> Tensor:
    """f of Fig. 3 on (batch, tokens, width); token mixing uses the transposed tensor."""
    h = a + b
    for i in range(options.get("layers", 1)):
        name = f"block.layers.{i}.mix_tokens"
        if options.get("block") == "attention":
            h = h + reference_attention(h, weights, name, options["heads"], options.get("rope", False))
        else:
            h = h + reference_swiglu(h.mT, weights, name).mT
        h = reference_norm(h, 1 if options.get("token_norm") == "tokens" else -1)
        h = reference_norm(h + reference_swiglu(h, weights, f"block.layers.{i}.mix_channels"), -1)
    return h


def reference(
    mapper: RTM,
    z: Tensor,
    options: dict[str, Any],
    H: int | None = None,
    detach: bool = True,
) -> Tensor:
    """Algorithm 1 line by line, after the PixelNorm of Fig. 3."""
    weights = dict(mapper.named_parameters())
    z = reference_norm(z, 1, 1e-8)
    Z_0 = (z @ weights["project.weight"].T + weights["project.bias"]).reshape(len(z), mapper.tokens, mapper.width)
    Z_H = mapper.initial_h.reshape(-1, mapper.width).expand_as(Z_0)
    Z_L = mapper.initial_l.reshape(-1, mapper.width).expand_as(Z_0)
    steps = H or mapper.H
    for h in range(1, steps + 1):
        for _ in range(mapper.L):
            Z_L = reference_block(Z_L, Z_H + Z_0, weights, options)
        Z_H = reference_block(Z_H, Z_L, weights, options)
        if h < steps and detach:
            Z_H = Z_H.detach()
            Z_L = Z_L.detach()
    return Z_H.flatten(1) @ weights["readout.weight"].T + weights["readout.bias"]


def gradients(mapper: nn.Module, w: Tensor) -> list[Tensor]:
    direction = torch.linspace(-1, 1, w.numel(), dtype=w.dtype).reshape(w.shape)
    return list(torch.autograd.grad((w * direction).sum(), list(mapper.parameters())))


def close(one: Any, other: Any) -> None:
    assert_close(one, other, rtol=0, atol=1e-10)


def distance(one: Tensor, other: Tensor) -> float:
    return float((one - other).detach().norm() / other.detach().norm())


VARIANTS: dict[str, dict[str, Any]] = {
    "mixer": {},
    "literal TRM mixer": {"layers": 2, "round_to": 256, "token_norm": "tokens"},
    "attention": {"block": "attention", "heads": 2},
    "attention with positions": {"block": "attention", "heads": 2, "layers": 2, "rope": True},
    "a state for each token": {"init_per_token": True},
}


@pytest.mark.parametrize("options", VARIANTS.values(), ids=VARIANTS.keys())
def test_fast_equals_literal_algorithm(options: dict[str, Any]) -> None:
    mapper = RTM(24, 4, 8, 5, 2, **options).double()
    z = torch.randn(7, 24).double()
    w = mapper(z)
    expected = reference(mapper, z, options)
    close(w, expected)
    close(gradients(mapper, w), gradients(mapper, expected))
    with torch.no_grad():  # without gradients the products are in place
        close(mapper(z), expected)


def test_paper_configuration_equals_literal_algorithm() -> None:
    """32 evaluations of an untrained f make a rounding error 100 times larger, so float64 checks float32."""
    mapper = RTM(512, 4, 128, 16, 1)
    exact = copy.deepcopy(mapper).double()
    z = torch.randn(16, 512)
    expected = reference(exact, z.double(), {})
    w = exact(z.double())
    assert (w - expected).abs().max() < 1e-6
    for ours, theirs in zip(gradients(exact, w), gradients(exact, expected), strict=True):
        assert distance(ours, theirs) < 1e-6
    assert distance(mapper(z), expected) < 2 * distance(reference(mapper, z, {}), expected) < 1e-4


def test_full_gradient_differs_from_short_and_equals_undetached_reference() -> None:
    mapper = RTM(24, 4, 8, 4, 1, gradient_steps=4, learnable_init=True).double()
    z = torch.randn(5, 24).double()
    full = gradients(mapper, mapper(z))
    close(full, gradients(mapper, reference(mapper, z, {}, detach=False)))
    short = RTM(24, 4, 8, 4, 1).double()
    short.load_state_dict(mapper.state_dict())
    names = [name for name, _ in mapper.named_parameters()]
    of_project = full[names.index("project.weight")]
    assert distance(gradients(short, short(z))[0], of_project) > 1e-3


def test_only_the_last_step_keeps_a_graph() -> None:
    def saved(H: int) -> int:
        sizes: list[int] = []

        def remember(x: Tensor) -> Tensor:
            sizes.append(x.numel())
            return x

        with torch.autograd.graph.saved_tensors_hooks(remember, lambda x: x):
            RTM(24, 4, 8, H, 1)(torch.randn(5, 24))
        return sum(sizes)

    assert saved(1) == saved(2) == saved(9)


@pytest.mark.parametrize("H", [1, 3, 9])
def test_another_h_at_inference(H: int) -> None:
    mapper = RTM(24, 4, 8, 4, 2).double()
    z = torch.randn(5, 24).double()
    assert_close(mapper(z, H=H), reference(mapper, z, {}, H=H), rtol=0, atol=1e-10)
    assert_close(mapper(z, H=4), mapper(z), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("mapper", "expected"),
    [
        (lambda: RTM(512, 4, 128, 16, 1), 657_600),
        (lambda: RTM(512, 2, 128, 16, 1, layers=2, round_to=256), 659_200),
        (lambda: RTM(512, 8, 64, 16, 1, block="attention", layers=2, round_to=256), 656_384),
        (lambda: RTM(1024, 8, 128, 8, 2), 2_231_872),
        (lambda: RTM(512, 4, 128, 64, 9), 657_600),
        (lambda: MLPMapper(512, 2, lr_mul=0.01), 525_312),
        (lambda: MLPMapper(512, 16, lr_mul=0.01), 4_202_496),
        (lambda: MLPMapper(512, 32, lr_mul=0.01), 8_404_992),
        (lambda: MLPMapper(1024, 8), 8_396_800),
    ],
)
def test_parameter_counts(mapper: Any, expected: int) -> None:
    with torch.device("meta"):
        assert parameters(mapper()) == expected


def test_initial_states_are_constants_saved_with_the_weights() -> None:
    torch.manual_seed(1)
    one = RTM(24, 4, 8, 2, 1)
    torch.manual_seed(2)
    other = RTM(24, 4, 8, 2, 1)
    state = one.state_dict()
    assert torch.equal(state["initial_h"], other.initial_h)
    assert torch.equal(state["initial_l"], other.initial_l)
    assert not torch.equal(one.initial_h, one.initial_l)
    assert not torch.equal(one.project.weight, other.project.weight)
    torch.manual_seed(1)
    assert torch.equal(RTM(24, 4, 8, 2, 1).project.weight, one.project.weight)


def test_a_sample_does_not_depend_on_its_batch() -> None:
    for mapper in (RTM(24, 4, 8, 6, 2).double(), MLPMapper(24, 8).double()):
        z = torch.randn(9, 24).double()
        assert_close(
            mapper(z)[3:5],
            mapper(z[3:5]),
            rtol=0,
            atol=1e-12,
        )


def test_mappers_stay_in_full_precision_under_autocast() -> None:
    for mapper in (RTM(24, 4, 8, 6, 2), MLPMapper(24, 8), MLPMapper(24, 2, lr_mul=0.01)):
        z = torch.randn(9, 24)
        with torch.autocast("cpu", torch.bfloat16):
            w = mapper(z)
        assert torch.equal(w, mapper(z))


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # dynamo reads it for every input
@pytest.mark.slow(seconds=3)
def test_compiled_block_equals_eager_and_a_copy_uses_its_own_weights() -> None:
    mapper = RTM(24, 4, 8, 4, 1)
    z = torch.randn(5, 24)
    eager = mapper(z)
    names = list(mapper.state_dict())
    compile_part(mapper.block, backend="aot_eager")
    assert_close(mapper(z), eager)
    assert_close(gradients(mapper, mapper(z)), gradients(mapper, eager))
    assert list(mapper.state_dict()) == names
    average = copy.deepcopy(mapper)
    with torch.no_grad():
        for p in average.block.parameters():
            p.zero_()
    assert not torch.allclose(average(z), eager)
    assert_close(mapper(z), eager)


def test_mlp_mapper_of_rs_imle() -> None:
    mapper = MLPMapper(16, 8, in_dim=10)
    z = torch.randn(4, 10)
    weights = mapper.state_dict()
    w = z / torch.sqrt((z**2).mean(1, keepdim=True) + 1e-8)
    for i in range(8):
        w = F.leaky_relu(w @ weights[f"layers.{i}.weight"].T + weights[f"layers.{i}.bias"], 0.2)
    assert_close(mapper(z), w)
    bound = 1 / math.sqrt(16)  # nn.Linear's initialisation
    assert all(0.9 * bound < weights[f"layers.{i}.weight"].abs().max() <= bound for i in range(1, 8))
    assert not any(weights[f"layers.{i}.bias"].any() for i in range(8))
    he = MLPMapper(256, 1, init="he").state_dict()["layers.0.weight"]
    assert he.std().item() == pytest.approx(math.sqrt(2 / (1.04 * 256)), rel=0.02)


def test_mlp_mapper_of_stylegan2_is_equalised() -> None:
    mapper = MLPMapper(256, 2, lr_mul=0.01)
    z = torch.randn(64, 256)
    weights = mapper.state_dict()
    assert weights["layers.0.weight"].std().item() == pytest.approx(100, rel=0.02)
    w = z / torch.sqrt((z**2).mean(1, keepdim=True) + 1e-8)
    for i in range(2):
        x = w @ (weights[f"layers.{i}.weight"] * 0.01 / 16).T + weights[f"layers.{i}.bias"] * 0.01
        w = F.leaky_relu(x, 0.2) * math.sqrt(2)
    assert_close(mapper(z), w)


def test_lr_mul_scales_an_adam_step_of_rtm_and_nothing_else() -> None:
    def step(lr_mul: float) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        mapper = RTM(24, 4, 8, 3, 1, lr_mul=lr_mul).double()
        optimiser = torch.optim.Adam(mapper.parameters(), lr=0.01, eps=1e-30)
        z = torch.randn(5, 24).double()
        before = mapper(z).detach()
        weight = mapper.project.effective().detach().clone()
        (mapper(z) ** 2).sum().backward()
        optimiser.step()
        return before, mapper.project.effective().detach() - weight

    (w, moved), (w_slow, moved_slow) = step(0.1), step(0.01)
    assert_close(w, w_slow, rtol=1e-3, atol=1e-4)  # weights are drawn in float32
    assert_close(moved * 0.1, moved_slow)
    assert_close(
        moved.abs().mean().item(),
        0.01 * 0.1 / math.sqrt(24),
        rtol=0.01,
        atol=0,
    )  # equalised


@pytest.mark.parametrize("block", ["mixer", "attention"])
def test_with_a_multiplier_all_applications_of_the_block_add_what_one_would(
    block: Literal["mixer", "attention"],
) -> None:
    def branches(lr_mul: float) -> list[Tensor]:
        torch.manual_seed(0)
        mapper = RTM(24, 4, 8, 3, 1, block, lr_mul=lr_mul)
        layers = {name: part for name, part in mapper.named_modules() if isinstance(part, Linear)}
        return [part.effective() for name, part in layers.items() if name.endswith((".down", ".out"))]

    for plain, damped in zip(branches(1.0), branches(0.01), strict=True):
        assert_close(damped, plain / math.sqrt(3 * 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"H": 0}, "H is 0"),
        ({"L": 0}, "L is 0"),
        ({"block": "conv"}, "mixer, attention"),
        ({"token_norm": "rows"}, "channels, tokens"),
        ({"block": "attention", "heads": 3}, "heads that divide"),
        ({"learnable_init": True}, "gradient_steps to 4"),
    ],
)
def test_impossible_mappers_say_what_to_change(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        RTM(**{"dim": 24, "tokens": 4, "width": 8, "H": 4, "L": 1, **options})
    with pytest.raises(UserError, match="choose one of torch, he"):
        MLPMapper(8, 2, init="zero")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="max_H is 0"):
        RTM(16, 2, 8, 3, 1).settle(torch.randn(2, 16), 0.1, 0)


@pytest.mark.slow(seconds=3)
def test_package_imports_without_torch() -> None:
    code = "import sys, rtm; assert 'torch' not in sys.modules; rtm.RTM; assert 'torch' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="nothing"):
        rtm.nothing  # noqa: B018


@pytest.fixture
def halting() -> tuple[RTM, Tensor, float]:
    """A mapper in float64, latents, and a tolerance at which they need different numbers of steps."""
    mapper = RTM(32, 4, 8, 5, 2).double()
    z = torch.randn(40, 32).double()
    with torch.no_grad():
        for weight in mapper.block.parameters():
            weight.mul_(0.6)  # smaller changes than at the start, as after training
        states = list(itertools.islice(mapper.trajectory(z), 12))
    changes = [relative_change(a, b, (0, 2)) for a, b in itertools.pairwise(states)]
    return mapper, z, float(torch.stack(changes)[3:].median())


Halting = tuple[RTM, Tensor, float]


def test_no_tolerance_is_the_whole_recursion_to_the_last_bit() -> None:
    mapper = RTM(32, 4, 8, 5, 2)
    z = torch.randn(9, 32)
    with torch.no_grad():
        assert torch.equal(mapper(z, tolerance=0.0, max_H=13), mapper(z, H=13))
        assert torch.equal(mapper(z, tolerance=0.0), mapper(z))
    assert mapper.settle(z, 0.0, 13)[1].tolist() == [13] * 9


def test_samples_that_leave_the_batch_are_those_that_a_mask_would_stop(halting: Halting) -> None:
    mapper, z, tolerance = halting
    w, steps = mapper.settle(z, tolerance, 12)
    assert len(steps.unique()) > 3
    assert steps.max() == 12
    assert w.shape == (40, 32)
    before = mapper.initial_h.expand(4, 40, 8)
    left = torch.ones(40, dtype=torch.bool)
    expected = torch.zeros(4, 40, 8).double()
    counts = torch.zeros(40, dtype=torch.int64)
    for step, state in enumerate(itertools.islice(mapper.trajectory(z), 12), 1):
        expected[:, left] = state.detach()[:, left]
        counts[left] = step
        left &= relative_change(before, state, (0, 2)) >= tolerance
        before = state
    assert torch.equal(steps, counts)
    assert_close(w, mapper.read(expected).detach(), rtol=0, atol=1e-12)
    assert_close(mapper(z, tolerance=tolerance, max_H=12), w)


def test_steps_do_not_depend_on_the_rest_of_the_batch(halting: Halting) -> None:
    mapper, z, tolerance = halting
    w, steps = mapper.settle(z, tolerance, 12)
    for sample, one in enumerate(z):
        alone, count = mapper.settle(one[None], tolerance, 12)
        assert count == steps[sample]
        assert_close(alone[0], w[sample], rtol=0, atol=1e-12)
        assert_close(mapper(one[None], H=int(count)).detach(), alone, rtol=0, atol=1e-12)
    assert_close(mapper(z, H=steps), w)


def test_the_residual_is_one_more_step(halting: Halting) -> None:
    mapper, z, _ = halting
    w, moved = mapper.residual(z)
    assert_close(w, mapper(z))
    with torch.no_grad():
        last, further = itertools.islice(mapper.trajectory(z), 4, 6)  # steps H and H + 1
        assert_close(moved.detach(), (further - last).square().mean((0, 2)))
    moved.mean().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in mapper.block.parameters())


@pytest.mark.parametrize("block", ["mixer", "attention"])
def test_nothing_is_left_to_do_when_all_have_halted(block: Any) -> None:
    mapper = RTM(16, 2, 8, 3, 1, block=block)
    z = torch.randn(5, 16)
    batches: list[int] = []
    mapper.block.register_forward_hook(lambda _, given, out: batches.append(out.shape[1]))
    w, steps = mapper.settle(z, 3.0, 9)  # no step can change vectors of one length so much
    assert steps.tolist() == [1] * 5
    assert batches == [5, 5]
    assert_close(w, mapper(z, H=1).detach())
