"""The generator of StyleGAN2, with tiny networks: each fast or clever form equals a slow and obvious one."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from support.small_gan import DIM, small_generator
from torch import Tensor
from torch.testing import assert_close

from rtm.core.errors import UserError
from rtm.methods.stylegan2.losses import generator_loss
from rtm.models.layers import parameters
from rtm.models.mappers import RTM, MLPMapper
from rtm.models.stylegan2.discriminator import Discriminator
from rtm.models.stylegan2.generator import ModulatedConv, StyleGenerator, Synthesis
from rtm.models.stylegan2.layers import BLUR, fir


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("demodulate", [False, True])
def test_modulated_convolution_equals_one_convolution_a_sample(demodulate: bool, up: bool) -> None:
    conv = ModulatedConv(DIM, 4, 5, size=3, demodulate=demodulate, up=up)
    x = torch.randn(3, 4, 6, 6)
    w = torch.randn(3, DIM)
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
        assert_close(out[sample], expected[0], rtol=1e-4, atol=1e-5)


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
    assert all("noise_strength" in name for name in idle)  # all other parameters learn
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


def test_mixing_changes_the_style_from_the_crossover_on() -> None:
    generator = small_generator()
    z, other = torch.randn(2, 3, DIM).unbind()
    crossover = torch.tensor([0, 2, 4])  # `other` gives all, half or none of the styles
    w = generator.mapping.map(z)
    w2 = generator.mapping.map(other)
    ws = generator.mapping.styles(w, (w2, crossover))
    for sample in range(3):
        for layer in range(4):
            source = w if layer < crossover[sample] else w2
            assert torch.equal(ws[sample, layer], source[sample])
    images = generator(z, mixing=(other, crossover))
    assert_close(images[0], generator(other)[0])
    assert_close(images[2], generator(z)[2])
    assert not torch.allclose(images[1], generator(z)[1])


def test_truncation_and_the_running_mean() -> None:
    generator = small_generator()
    z = torch.randn(4, DIM)
    w = torch.randn(10, DIM)
    generator(z)
    assert not generator.mapping.w_avg.any()  # only `track` moves it
    generator.mapping.track(w)
    assert_close(generator.mapping.w_avg, 0.002 * w.mean(0))
    for _ in range(5000):
        generator.mapping.track(w)
    assert_close(generator.mapping.w_avg, w.mean(0), rtol=1e-3, atol=1e-4)
    mean_image = generator.synthesis(generator.mapping.styles(generator.mapping.w_avg[None]))
    assert_close(generator(z, truncation=0.0), mean_image.expand(4, -1, -1, -1))
    half = generator.mapping.w_avg + 0.5 * (generator.mapping.map(z) - generator.mapping.w_avg)
    assert_close(generator(z, truncation=0.5), generator.synthesis(generator.mapping.styles(half)))


def test_each_layer_asks_for_its_own_noise() -> None:
    generator = small_generator()
    asked = []

    def noise(wanted: Sequence[tuple[int, ...]]) -> list[Tensor]:
        asked.append(wanted)
        return [torch.randn(2, 1, which[0], which[0]) for which in wanted]

    z = torch.randn(2, DIM)
    noisy = generator(z, noise=noise)
    assert asked == [[(4, 0), (8, 0), (8, 1)]]  # one request for all layers
    assert not torch.allclose(noisy, generator(z))
    fresh = Synthesis(DIM, 8, 32, 4)  # untrained: the strength of the noise starts at zero
    ws = torch.randn(2, 4, DIM)
    assert torch.equal(fresh(ws, noise), fresh(ws))


def test_image_layers_share_their_style_with_the_next_stage() -> None:
    """Stages use ws in the order 0 | 1, 2, 3, with overlaps. The gradient of a stage's output shows which ones."""
    synthesis = Synthesis(DIM, 8, 32, 4)
    ws = torch.randn(1, 4, DIM, requires_grad=True)
    x, image = synthesis.stages[0](
        synthesis.constant[None],
        None,
        list(ws.unbind(1))[:2],
        [None],
    )
    used = [torch.autograd.grad(out.sum(), ws, retain_graph=True)[0].abs().sum(2)[0] > 0 for out in (x, image)]
    assert used[0].tolist() == [True, False, False, False]
    assert used[1].tolist() == [True, True, False, False]
    (gradient,) = torch.autograd.grad(synthesis(ws).sum(), ws)
    assert (gradient.abs().sum(2) > 0).all()


def test_autocast_reduces_only_the_high_resolutions() -> None:
    """The features of the four highest resolutions are bfloat16; styles, statistics, images and logits are float32."""
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
    full = torch.float32
    low = torch.bfloat16
    assert kinds == {"G 4": full, "G 8": low, "G style": full, "D 64": low, "D 4": full, "D hidden": full}
    assert_close(images, exact, rtol=0.1, atol=0.1)
