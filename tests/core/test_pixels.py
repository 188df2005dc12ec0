"""Pixels are converted to network values and back without change."""

import numpy as np
import torch

from rtm.core.pixels import to_pixels, to_unit


def test_pixels_survive_the_round_trip() -> None:
    pixels = torch.arange(256, dtype=torch.uint8)
    assert torch.equal(to_pixels(to_unit(pixels)), pixels)


def test_a_value_becomes_the_nearest_pixel_and_none_wraps_round() -> None:
    values = torch.linspace(-1.5, 1.5, 3001)
    exact = np.clip((values.numpy().astype(np.float64) + 1) * 127.5, 0, 255)
    found = to_pixels(values).numpy()
    assert np.abs(found - exact).max() <= 0.5 + 1e-4
    assert found[0] == 0
    assert found[-1] == 255


def test_the_pixels_that_are_given_stay() -> None:
    """The arithmetic is in place, but on a copy, even if the input is float32."""
    given = torch.tensor([0.0, 255.0])
    assert to_unit(given).tolist() == [-1, 1]
    assert given.tolist() == [0, 255]
