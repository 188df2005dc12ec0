"""Layers of several networks: initial weights and steps of a linear layer, norms, and full precision."""

import pytest
import torch
from torch.testing import assert_close

from rtm.models.layers import Linear, no_autocast, pixel_norm, relative_change, truncated_normal_


def test_equalised_learning_rate() -> None:
    """With any multiplier the effective weights start with deviation 1 / sqrt(fan_in). Adam's steps are proportional
    to the multiplier."""
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


def test_weights_in_effect_stay_where_a_layer_is_equalised_later() -> None:
    layer = Linear(9, 4, bias=0.5, lr_mul=0.1)
    x = torch.randn(5, 9)
    before = layer(x).detach()
    stored = layer.weight.detach().clone()
    layer.equalise(anew=False)
    assert_close(layer(x), before)
    assert_close(layer.weight, 3 * stored)  # 3 = sqrt(fan_in)
    assert_close(layer(torch.zeros(1, 9)), torch.full((1, 4), 0.5))


def test_a_cut_normal_has_the_asked_deviation_and_no_tails() -> None:
    drawn = truncated_normal_(torch.empty(200_000), 0.3, torch.Generator().manual_seed(0))
    assert drawn.std().item() == pytest.approx(0.3, rel=0.01)
    assert drawn.abs().max().item() == pytest.approx(2 * 0.3 / 0.8796, rel=1e-3)  # the cut at two sigma, then widened


def test_pixel_norm_gives_each_vector_a_mean_square_of_one() -> None:
    x = torch.tensor([[3.0, -4.0], [0.0, 0.02], [0.0, 0.0]])
    length = (25 / 2) ** 0.5
    assert_close(pixel_norm(x)[0], x[0] / length)
    assert_close(
        pixel_norm(x)[1:],
        torch.tensor([[0.0, 2**0.5], [0.0, 0.0]]),
        atol=1e-4,
        rtol=0,
    )


def test_the_change_is_relative_to_what_came_out() -> None:
    before = torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    after = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    assert_close(relative_change(before, after, 1), torch.tensor([4 / 5, 1 / 2]))
    assert relative_change(before, after, (0, 1)).item() == pytest.approx((17 / 29) ** 0.5)


def test_a_block_of_no_autocast_is_not_rounded_by_autocast() -> None:
    x = torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        with no_autocast(x), no_autocast(x.to("meta")):
            inside = x @ x.T
        outside = x @ x.T
    assert (inside.dtype, outside.dtype) == (torch.float32, torch.bfloat16)
    assert torch.equal(inside, x @ x.T)
