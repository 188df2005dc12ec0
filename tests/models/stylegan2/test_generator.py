"""StyleGAN2: each fast or clever form against a slow and obvious one, on tiny networks."""

import math
from collections.abc import Sequence
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rtm.core.errors import UserError
from rtm.methods.stylegan2.losses import (
    discriminator_loss,
    ema_decay,
    generator_loss,
    lazy_adam,
    path_lengths,
    path_penalty,
    path_target,
    r1_penalty,
)
from rtm.models.layers import Linear, parameters, pixel_norm
from rtm.models.mappers import RTM, MLPMapper
from rtm.models.stylegan2.discriminator import Architecture, Discriminator, minibatch_deviation
from rtm.models.stylegan2.generator import ModulatedConv, StyleGenerator, Synthesis
from rtm.models.stylegan2.layers import BLUR, EqualConv, fir, lrelu, resolutions, upfirdn

DIM = 6


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def small_generator(classes: int = 0, resolution: int = 8) -> StyleGenerator:
    mapper = MLPMapper(DIM, layers=2, lr_mul=0.01, in_dim=2 * DIM if classes else None)
    generator = StyleGenerator(
        mapper, Synthesis(DIM, resolution, channel_base=8 * resolution // 2, channel_max=5), classes
    )
    for name, parameter in generator.named_parameters():
        if "noise_strength" in name or "bias" in name:
            nn.init.normal_(parameter, std=0.3)  # as after some training, so that nothing is tested at zero
    return generator


def small_discriminator(architecture: Architecture = "orig", classes: int = 0) -> Discriminator:
    return Discriminator(8, architecture, channel_base=32, channel_max=5, mbstd_group=2, classes=classes)


def slow_upfirdn(x: Tensor, kernel: Tensor, up: int, down: int, pad: tuple[int, int]) -> Tensor:
    height, width = x.shape
    canvas = torch.zeros(height * up + sum(pad), width * up + sum(pad), dtype=x.dtype)
    for i in range(height):
        for j in range(width):
            canvas[pad[0] + i * up, pad[0] + j * up] = x[i, j]
    taps = len(kernel)
    rows = range(0, canvas.shape[0] - taps + 1, down)
    columns = range(0, canvas.shape[1] - taps + 1, down)
    out = torch.zeros(len(rows), len(columns), dtype=x.dtype)
    for a, i in enumerate(rows):
        for b, j in enumerate(columns):
            for m in range(taps):
                for n in range(taps):
                    out[a, b] += kernel[m, n] * canvas[i + taps - 1 - m, j + taps - 1 - n]
    return out


@pytest.mark.parametrize(("up", "down", "pad"), [(1, 1, (2, 2)), (2, 1, (2, 1)), (1, 2, (1, 1)), (3, 2, (0, 4))])
def test_upfirdn_is_a_direct_convolution(up: int, down: int, pad: tuple[int, int]) -> None:
    x, kernel = torch.randn(2, 3, 6, 5, dtype=torch.float64), torch.randn(4, 4, dtype=torch.float64)
    out = upfirdn(x, kernel, up, down, pad)
    for sample in range(2):
        for channel in range(3):
            expected = slow_upfirdn(x[sample, channel], kernel, up, down, pad)
            torch.testing.assert_close(out[sample, channel], expected)


def centre(image: Tensor) -> tuple[float, float]:
    """Centre of mass, in pixels from the corner of the image."""
    rows, columns = (torch.arange(n) + 0.5 for n in image.shape)
    mass = image.sum()
    return float((image.sum(1) * rows).sum() / mass), float((image.sum(0) * columns).sum() / mass)


def test_resampling_keeps_every_point_in_its_place_and_the_brightness() -> None:
    x = torch.zeros(1, 1, 8, 8)
    x[0, 0, 3, 4] = 1.0
    up = upfirdn(x, fir(BLUR, gain=2.0), up=2, pad=(2, 1))
    wide = ModulatedConv(2, 1, 1, size=3, up=True)
    nn.init.ones_(wide.weight)
    halved = [EqualConv(1, 1, size=size, down=True) for size in (1, 3)]
    for conv in halved:
        nn.init.ones_(conv.weight)
    assert up.shape[-1] == 16 and up.sum().item() == pytest.approx(4)
    assert centre(up[0, 0]) == pytest.approx((7, 9))
    assert centre(wide(x, torch.zeros(1, 2))[0, 0].detach()) == pytest.approx((7, 9))
    for conv in halved:
        down = conv(upfirdn(x, fir(BLUR, gain=2.0), up=2, pad=(2, 1)))
        assert down.shape[-1] == 8 and centre(down[0, 0].detach()) == pytest.approx((3.5, 4.5))


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("demodulate", [False, True])
def test_modulated_convolution_equals_one_convolution_a_sample(demodulate: bool, up: bool) -> None:
    conv = ModulatedConv(DIM, 4, 5, size=3, demodulate=demodulate, up=up)
    x, w = torch.randn(3, 4, 6, 6), torch.randn(3, DIM)
    out = conv(x, w)
    for sample, style in enumerate(conv.affine(w)):
        weight = conv.weight * conv.gain * style[None, :, None, None]
        if demodulate:
            weight = weight / (weight.square().sum((1, 2, 3), keepdim=True) + 1e-8).sqrt()
        if up:
            wide = F.conv_transpose2d(x[sample : sample + 1], weight.transpose(0, 1), stride=2)
            expected = F.conv2d(wide, fir(BLUR, gain=2.0).expand(5, 1, 4, 4), padding=1, groups=5)
        else:
            expected = F.conv2d(x[sample : sample + 1], weight, padding=1)
        torch.testing.assert_close(out[sample], expected[0], rtol=1e-4, atol=1e-5)


def test_equalised_learning_rate() -> None:
    """The weights in effect start at 1 / sqrt(fan_in) whatever the multiplier; Adam moves them in proportion to it."""
    moves = {}
    for multiplier in (1.0, 0.01):
        layer = Linear(400, 300, lr_mul=multiplier, equalised=True)
        eye = torch.eye(400)
        before = layer(eye).detach()
        assert before.std().item() == pytest.approx(1 / 20, rel=0.02)
        optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
        layer(eye).sum().backward()
        optimiser.step()
        moves[multiplier] = (layer(eye).detach() - before).mean().item()
    assert moves[1.0] == pytest.approx(-0.1 / 20 - 0.1, rel=1e-3)  # weight and bias
    assert moves[0.01] == pytest.approx(0.01 * moves[1.0], rel=1e-3)


def test_resolutions_are_powers_of_two() -> None:
    assert resolutions(32) == [4, 8, 16, 32]
    for wrong in (0, 2, 24):
        with pytest.raises(ValueError, match="power of two"):
            resolutions(wrong)


def test_parameter_counts_of_the_cifar_recipe() -> None:
    with torch.device("meta"):
        synthesis = Synthesis(512, 32)
        conditional = StyleGenerator(MLPMapper(512, 2, lr_mul=0.01, in_dim=1024), synthesis, classes=10)
    assert parameters(synthesis) == 19_422_227
    assert parameters(conditional) - parameters(synthesis) == 793_088  # mapper and label embedding


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("recursive", [False, True])
def test_generator_and_discriminator_take_any_mapper_and_labels(classes: int, recursive: bool) -> None:
    in_dim = 2 * DIM if classes else None
    mapper = RTM(DIM, 2, 3, H=2, L=1, in_dim=in_dim) if recursive else MLPMapper(DIM, 2, 0.01, in_dim)
    generator = StyleGenerator(mapper, Synthesis(DIM, 16, 32, 4), classes)
    labels = torch.tensor([0, 1, 2, 0]) if classes else None
    z = torch.randn(4, DIM)
    images = generator(z, labels, **({"H": 3} if recursive else {}))
    assert images.shape == (4, 3, 16, 16)
    discriminator = Discriminator(16, channel_base=32, channel_max=4, mbstd_group=4, classes=classes)
    logits = discriminator(images, labels)
    assert logits.shape == (4,)
    names, weights = zip(*generator.named_parameters(), strict=True)
    gradients = torch.autograd.grad(generator_loss(logits), weights, allow_unused=True)
    idle = [name for name, gradient in zip(names, gradients, strict=True) if gradient is None]
    assert all("noise_strength" in name for name in idle)  # everything else learns
    if recursive:
        assert not torch.equal(images, generator(z, labels))
    if labels is not None:
        assert not torch.allclose(images, generator(z, labels.flip(0)))
        assert not torch.allclose(logits, discriminator(images, labels.flip(0)))
        with pytest.raises(UserError, match="pass labels c of 3 classes"):
            generator(z)
        with pytest.raises(ValueError, match="needs labels"):
            discriminator(images)
    else:
        with pytest.raises(UserError, match="would ignore its labels; build it with c_dim"):
            generator(z, torch.tensor([0, 1, 2, 0]))


def test_conditional_input_is_normalised_z_beside_normalised_embedding() -> None:
    seen: list[Tensor] = []

    class Spy(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            seen.append(z)
            return z[:, :DIM]

    generator = StyleGenerator(Spy(), Synthesis(DIM, 4, 32, 4), classes=3)
    z = 5 * torch.randn(2, DIM)
    generator.mapping.map(z, torch.tensor([2, 1]))
    layer = cast(Any, generator.mapping.embedding).linear
    embedded = layer.weight[:, [2, 1]].T / math.sqrt(3) + layer.bias
    torch.testing.assert_close(seen[0], torch.cat([pixel_norm(z), pixel_norm(embedded)], 1))
    torch.testing.assert_close(seen[0].square().view(2, 2, DIM).mean(2), torch.ones(2, 2))


def test_mixing_changes_the_style_from_the_crossover_on() -> None:
    generator = small_generator()
    z, other = torch.randn(2, 3, DIM).unbind()
    crossover = torch.tensor([0, 2, 4])  # all of it, half of it, nothing of it is the other's
    w, w2 = generator.mapping.map(z), generator.mapping.map(other)
    ws = generator.mapping.styles(w, (w2, crossover))
    for sample in range(3):
        for layer in range(4):
            source = w if layer < crossover[sample] else w2
            assert torch.equal(ws[sample, layer], source[sample])
    images = generator(z, mixing=(other, crossover))
    torch.testing.assert_close(images[0], generator(other)[0])
    torch.testing.assert_close(images[2], generator(z)[2])
    assert not torch.allclose(images[1], generator(z)[1])


def test_truncation_and_the_running_mean() -> None:
    generator = small_generator()
    z, w = torch.randn(4, DIM), torch.randn(10, DIM)
    generator(z)
    assert not generator.mapping.w_avg.any()  # moved by `track` alone
    generator.mapping.track(w)
    torch.testing.assert_close(generator.mapping.w_avg, 0.002 * w.mean(0))
    for _ in range(5000):
        generator.mapping.track(w)
    torch.testing.assert_close(generator.mapping.w_avg, w.mean(0), rtol=1e-3, atol=1e-4)
    mean_image = generator.synthesis(generator.mapping.styles(generator.mapping.w_avg[None]))
    torch.testing.assert_close(generator(z, truncation=0.0), mean_image.expand(4, -1, -1, -1))
    half = generator.mapping.w_avg + 0.5 * (generator.mapping.map(z) - generator.mapping.w_avg)
    torch.testing.assert_close(generator(z, truncation=0.5), generator.synthesis(generator.mapping.styles(half)))


def test_each_layer_asks_for_its_own_noise() -> None:
    generator, asked = small_generator(), []

    def noise(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        asked.append(wanted)
        return [torch.randn(2, 1, which[0], which[0]) for which in wanted]

    z = torch.randn(2, DIM)
    noisy = generator(z, noise=noise)
    assert asked == [[(4, 0), (8, 0), (8, 1)]]  # all at once
    assert not torch.allclose(noisy, generator(z))
    fresh = Synthesis(DIM, 8, 32, 4)  # untrained: the strength of the noise starts at zero
    ws = torch.randn(2, 4, DIM)
    assert torch.equal(fresh(ws, noise), fresh(ws))


def test_image_layers_share_their_style_with_the_next_stage() -> None:
    """ws are used in order 0 | 1, 2, 3 with overlaps: the gradient of one stage's output shows which."""
    synthesis = Synthesis(DIM, 8, 32, 4)
    ws = torch.randn(1, 4, DIM, requires_grad=True)
    x, image = synthesis.stages[0](synthesis.constant[None], None, list(ws.unbind(1))[:2], [None])
    used = [torch.autograd.grad(out.sum(), ws, retain_graph=True)[0].abs().sum(2)[0] > 0 for out in (x, image)]
    assert used[0].tolist() == [True, False, False, False]
    assert used[1].tolist() == [True, True, False, False]
    (gradient,) = torch.autograd.grad(synthesis(ws).sum(), ws)
    assert (gradient.abs().sum(2) > 0).all()


def test_minibatch_deviation_against_a_loop() -> None:
    x = torch.randn(6, 4, 3, 3)
    out = minibatch_deviation(x, group=3)
    assert torch.equal(out[:, :4], x)
    for start in (0, 3):
        deviations = [
            x[start : start + 3, c, i, j].std(unbiased=False).item()
            for c in range(4)
            for i in range(3)
            for j in range(3)
        ]
        expected = torch.full((3, 3, 3), sum(deviations) / len(deviations))
        torch.testing.assert_close(out[start : start + 3, 4], expected)


def test_groups_never_depend_silently_on_the_batch() -> None:
    with pytest.raises(UserError, match="multiple of mbstd_group = 4"):
        minibatch_deviation(torch.randn(6, 2, 4, 4), group=4)


def test_a_batch_cut_at_groups_gives_the_same_logits() -> None:
    discriminator, images = small_discriminator(), torch.randn(4, 3, 8, 8)
    parts = torch.cat([discriminator(images[:2]), discriminator(images[2:])])
    torch.testing.assert_close(discriminator(images), parts)


def test_residual_discriminator_adds_a_linear_path() -> None:
    orig, resnet = small_discriminator("orig"), small_discriminator("resnet")
    assert parameters(resnet) - parameters(orig) == 4 * 5  # one 1 x 1 convolution without bias from 4 to 5 channels
    resnet.load_state_dict({**resnet.state_dict(), **orig.state_dict()})
    stage, plain = cast(Any, resnet.stages[0]), orig.stages[0]
    x = torch.randn(2, 4, 8, 8)
    skip = F.conv2d(upfirdn(x, fir(BLUR), down=2, pad=(1, 1)), stage.skip.weight / 2)  # 1 / sqrt(4)
    torch.testing.assert_close(stage(x), (plain(x) + skip) / math.sqrt(2))


def test_autocast_reduces_only_the_high_resolutions() -> None:
    """In bfloat16 the features of the four highest resolutions; in float32 styles, statistics, images, logits."""
    generator = small_generator(resolution=64)
    discriminator = Discriminator(64, channel_base=64, channel_max=4, mbstd_group=2)
    kinds: dict[str, torch.dtype] = {}

    def remember(name: str) -> Any:
        return lambda module, inputs, output: kinds.__setitem__(name, output.dtype)

    stages: Any = generator.synthesis.stages
    layers = {
        "G 4": stages[0].layers[0],
        "G 8": stages[1].layers[1],
        "G style": stages[4].layers[0].conv.affine,
        "D 64": discriminator.stages[0].first,
        "D 4": discriminator.conv,
        "D hidden": discriminator.hidden,
    }
    for name, layer in layers.items():
        layer.register_forward_hook(remember(name))
    z = torch.randn(2, DIM)
    exact = generator(z)
    with torch.autocast("cpu", torch.bfloat16):
        images = generator(z)
        logits = discriminator(images)
    assert images.dtype == logits.dtype == torch.float32
    full, low = torch.float32, torch.bfloat16
    assert kinds == {"G 4": full, "G 8": low, "G style": full, "D 64": low, "D 4": full, "D hidden": full}
    torch.testing.assert_close(images, exact, rtol=0.1, atol=0.1)


def test_networks_are_one_graph_for_the_compiler() -> None:
    generator, discriminator = small_generator(), small_discriminator("resnet")
    z, images = torch.randn(2, DIM), torch.randn(2, 3, 8, 8)
    fused_g = torch.compile(generator, backend="eager", fullgraph=True)
    fused_d = torch.compile(discriminator, backend="eager", fullgraph=True)
    torch.testing.assert_close(fused_g(z), generator(z))
    torch.testing.assert_close(fused_d(images), discriminator(images))


def test_logistic_losses() -> None:
    real, fake = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 3.0])
    sigmoid = torch.sigmoid
    torch.testing.assert_close(generator_loss(fake), -sigmoid(fake).log().mean())
    expected = -sigmoid(real).log().mean() - (1 - sigmoid(fake)).log().mean()
    torch.testing.assert_close(discriminator_loss(real, fake), expected)


def test_r1_of_a_quadratic_critic() -> None:
    """D(x) = a sum x^2 / 2 has the gradient a x, so the penalty is a^2 |x|^2 / 2 and its derivative a |x|^2."""
    a = torch.tensor(1.5, requires_grad=True)
    x = torch.randn(4, 3, 5, 5, requires_grad=True)
    penalty = r1_penalty(a * x.square().sum((1, 2, 3)) / 2, x)
    square = x.detach().square().sum((1, 2, 3)).mean()
    torch.testing.assert_close(penalty, 1.125 * square)
    (gradient,) = torch.autograd.grad(penalty, a)
    torch.testing.assert_close(gradient, 1.5 * square)


def numeric_matches(loss: Any, parameters: list[nn.Parameter], step: float = 1e-6) -> None:
    """The gradient of loss() along a random direction, by automatic and by finite differences in float64."""
    directions = [torch.randn_like(parameter) for parameter in parameters]
    gradients = torch.autograd.grad(loss(), parameters, allow_unused=True)
    slope = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True) if g is not None)
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.add_(direction, alpha=sign * step)
        values.append(loss().detach())
        with torch.no_grad():
            for parameter, direction in zip(parameters, directions, strict=True):
                parameter.sub_(direction, alpha=sign * step)
    torch.testing.assert_close(cast(Tensor, slope).detach(), (values[0] - values[1]) / (2 * step), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("architecture", ["orig", "resnet"])
def test_r1_gradient_against_finite_differences(architecture: Architecture) -> None:
    discriminator = small_discriminator(architecture, classes=3).double()
    x = torch.randn(4, 3, 8, 8, dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([0, 1, 2, 1])
    numeric_matches(lambda: r1_penalty(discriminator(x, labels), x), list(discriminator.parameters()))


def test_path_lengths_against_the_whole_jacobian() -> None:
    synthesis = small_generator().double().synthesis
    ws = torch.randn(2, 4, DIM, dtype=torch.float64, requires_grad=True)
    y = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    lengths = path_lengths(synthesis(ws), ws, y)
    for sample in range(2):
        jacobian: Tensor = torch.func.jacrev(lambda one: synthesis(one[None])[0])(ws[sample].detach())
        projected = (jacobian * y[sample, :, :, :, None, None]).sum((0, 1, 2)) / 8  # (num_ws, dim)
        expected = (projected.square().sum() / 4).sqrt()
        torch.testing.assert_close(lengths[sample].detach(), expected)


def test_path_length_gradient_against_finite_differences() -> None:
    generator = small_generator().double()
    z = torch.randn(2, DIM, dtype=torch.float64)
    y = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    target = torch.tensor(0.7, dtype=torch.float64)

    def loss() -> Tensor:
        ws = generator.mapping.styles(generator.mapping.map(z))
        return path_penalty(path_lengths(generator.synthesis(ws), ws, y), target)

    numeric_matches(loss, list(generator.parameters()))


def test_the_penalty_goes_through_the_running_mean() -> None:
    """By hand for lengths 1 and 3: a = 0.99 + 0.01 * 2, and d a / d length = 0.01 / 2 takes 1 % off the gradient of
    the mean, as in StyleGAN2's own code."""
    lengths = torch.tensor([1.0, 3.0], requires_grad=True)
    target = path_target(torch.tensor(1.0), lengths.mean())
    assert target.item() == pytest.approx(1.01)
    penalty = path_penalty(lengths, target)
    penalty.backward()
    assert penalty.item() == pytest.approx((0.01**2 + 1.99**2) / 2)
    away = [-0.01, 1.99]  # length - a; the penalty is their mean square
    assert lengths.grad is not None
    assert lengths.grad.tolist() == pytest.approx([own - 0.005 * sum(away) for own in away])


def test_lazy_adam_of_the_recipes() -> None:
    weight = [nn.Parameter(torch.zeros(1))]
    g = lazy_adam(weight, lr=0.0025, betas=(0.0, 0.99), interval=4).param_groups[0]
    d = lazy_adam([{"params": weight, "lr": 0.00025}], 0.0025, (0.0, 0.99), 16).param_groups[0]
    assert g["lr"] == pytest.approx(0.002) and g["betas"] == pytest.approx((0, 0.99 ** (4 / 5)))
    assert d["lr"] == pytest.approx(0.00025 * 16 / 17) and d["betas"] == pytest.approx((0, 0.99 ** (16 / 17)))


def test_ema_half_life_is_counted_in_images() -> None:
    """What is left of the first weights after 1,000 images is a half, in steps of 10 or of 50."""
    for batch in (10, 50):
        left = math.prod(ema_decay(batch, batch * step, 1000) for step in range(1000 // batch))
        assert left == pytest.approx(0.5)
    assert ema_decay(64, 0, 500_000, rampup=0.05) == 0.0  # at first the average is the weights themselves
    assert ema_decay(64, 64 * 1000, 500_000, rampup=0.05) == pytest.approx(0.5 ** (1 / (0.05 * 1000)))
    assert ema_decay(64, 10**8, 500_000, rampup=0.05) == ema_decay(64, 0, 500_000)


def test_activation_keeps_the_second_moment() -> None:
    x = torch.randn(200_000)
    assert lrelu(x).square().mean().item() == pytest.approx(1.04, rel=0.02)  # (1 + 0.2^2) / 2 * 2
