"""Losses and regularisers against definitions, Jacobians and finite differences; schedules against hand counts."""

import math
from typing import Any, cast

import pytest
import torch
from support.small_gan import DIM, small_discriminator, small_generator
from torch import Tensor, nn
from torch.testing import assert_close

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
from rtm.models.stylegan2.discriminator import Architecture


def test_logistic_losses() -> None:
    real = torch.tensor([2.0, -1.0])
    fake = torch.tensor([0.5, 3.0])
    sigmoid = torch.sigmoid
    assert_close(generator_loss(fake), -sigmoid(fake).log().mean())
    expected = -sigmoid(real).log().mean() - (1 - sigmoid(fake)).log().mean()
    assert_close(discriminator_loss(real, fake), expected)


def test_r1_of_a_quadratic_critic() -> None:
    """D(x) = a sum x^2 / 2 has the gradient a x, so the penalty is a^2 |x|^2 / 2 and its derivative a |x|^2."""
    a = torch.tensor(1.5, requires_grad=True)
    x = torch.randn(4, 3, 5, 5, requires_grad=True)
    penalty = r1_penalty(a * x.square().sum((1, 2, 3)) / 2, x)
    square = x.detach().square().sum((1, 2, 3)).mean()
    assert_close(penalty, 1.125 * square)
    (gradient,) = torch.autograd.grad(penalty, a)
    assert_close(gradient, 1.5 * square)


def numeric_matches(loss: Any, parameters: list[nn.Parameter], step: float = 1e-6) -> None:
    """Compare the automatic gradient of loss() along a random direction with finite differences in float64."""
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
    assert_close(
        cast(Tensor, slope).detach(),
        (values[0] - values[1]) / (2 * step),
        rtol=1e-4,
        atol=1e-7,
    )


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
        assert_close(lengths[sample].detach(), expected)


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
    """Computed by hand for lengths 1 and 3: a = 0.99 + 0.01 * 2, and d a / d length = 0.01 / 2 reduces the gradient of
    the mean by 1 %, as in StyleGAN2's own code."""
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
    assert g["lr"] == pytest.approx(0.002)
    assert g["betas"] == pytest.approx((0, 0.99 ** (4 / 5)))
    assert d["lr"] == pytest.approx(0.00025 * 16 / 17)
    assert d["betas"] == pytest.approx((0, 0.99 ** (16 / 17)))


def test_ema_half_life_is_counted_in_images() -> None:
    """After 1,000 images half of the first weights is left, in steps of 10 or 50 images."""
    for batch in (10, 50):
        left = math.prod(ema_decay(batch, batch * step, 1000) for step in range(1000 // batch))
        assert left == pytest.approx(0.5)
    assert ema_decay(64, 0, 500_000, rampup=0.05) == 0.0  # at first the average is the weights themselves
    assert ema_decay(64, 64 * 1000, 500_000, rampup=0.05) == pytest.approx(0.5 ** (1 / (0.05 * 1000)))
    assert ema_decay(64, 10**8, 500_000, rampup=0.05) == ema_decay(64, 0, 500_000)
