"""The discriminator: statistics of groups against a loop, and the linear path of the resnet architecture."""

import math
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from support.small_gan import small_discriminator
from torch.testing import assert_close

from rtm.core.errors import UserError
from rtm.models.layers import parameters
from rtm.models.stylegan2.discriminator import minibatch_deviation
from rtm.models.stylegan2.layers import BLUR, fir, upfirdn


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
        assert_close(out[start : start + 3, 4], expected)


def test_groups_never_depend_silently_on_the_batch() -> None:
    with pytest.raises(UserError, match="multiple of mbstd_group = 4"):
        minibatch_deviation(torch.randn(6, 2, 4, 4), group=4)


def test_a_batch_cut_at_groups_gives_the_same_logits() -> None:
    discriminator = small_discriminator()
    images = torch.randn(4, 3, 8, 8)
    parts = torch.cat([discriminator(images[:2]), discriminator(images[2:])])
    assert_close(discriminator(images), parts)


def test_residual_discriminator_adds_a_linear_path() -> None:
    orig = small_discriminator("orig")
    resnet = small_discriminator("resnet")
    assert parameters(resnet) - parameters(orig) == 4 * 5  # one 1 x 1 convolution without bias from 4 to 5 channels
    resnet.load_state_dict({**resnet.state_dict(), **orig.state_dict()})
    stage = cast(Any, resnet.stages[0])
    plain = orig.stages[0]
    x = torch.randn(2, 4, 8, 8)
    skip = F.conv2d(upfirdn(x, fir(BLUR), down=2, pad=(1, 1)), stage.skip.weight / 2)  # 1 / sqrt(4)
    assert_close(stage(x), (plain(x) + skip) / math.sqrt(2))
