"""StyleGAN2's layers: resampling against direct convolutions, the activation, the sizes."""

import pytest
import torch
from torch import Tensor, nn

from rtm.core.errors import UserError
from rtm.models.stylegan2.generator import ModulatedConv
from rtm.models.stylegan2.layers import BLUR, EqualConv, channels, fir, lrelu, resolutions, upfirdn


def slow_upfirdn(
    x: Tensor,
    kernel: Tensor,
    up: int,
    down: int,
    pad: tuple[int, int],
) -> Tensor:
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
    x = torch.randn(2, 3, 6, 5, dtype=torch.float64)
    kernel = torch.randn(4, 4, dtype=torch.float64)
    out = upfirdn(x, kernel, up, down, pad)
    for sample in range(2):
        for channel in range(3):
            expected = slow_upfirdn(x[sample, channel], kernel, up, down, pad)
            torch.testing.assert_close(out[sample, channel], expected)


def centre(image: Tensor) -> tuple[float, float]:
    """The centre of mass, in pixels from the corner of the image."""
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
    assert up.shape[-1] == 16
    assert up.sum().item() == pytest.approx(4)
    assert centre(up[0, 0]) == pytest.approx((7, 9))
    assert centre(wide(x, torch.zeros(1, 2))[0, 0].detach()) == pytest.approx((7, 9))
    for conv in halved:
        down = conv(upfirdn(x, fir(BLUR, gain=2.0), up=2, pad=(2, 1)))
        assert down.shape[-1] == 8
        assert centre(down[0, 0].detach()) == pytest.approx((3.5, 4.5))


def test_resolutions_are_powers_of_two() -> None:
    assert resolutions(32) == [4, 8, 16, 32]
    for wrong in (0, 2, 24):
        with pytest.raises(ValueError, match="power of two"):
            resolutions(wrong)


def test_activation_keeps_the_second_moment() -> None:
    x = torch.randn(200_000)
    assert lrelu(x).square().mean().item() == pytest.approx(1.04, rel=0.02)  # (1 + 0.2^2) / 2 * 2


def test_channels_halve_with_every_resolution_up_to_the_most() -> None:
    assert [channels(resolution, 64, 12) for resolution in resolutions(64)] == [12, 8, 4, 2, 1]
    with pytest.raises(UserError, match="channel_base is 63; it must be at least the resolution, 64"):
        channels(64, 63, 12)
