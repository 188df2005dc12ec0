"""Images for measurements: noise, and smooth images."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]


def pixels(count: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)


def pictures(count: int, side: int, seed: int) -> Pixels:
    """Smooth random images."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4 * count, 4, 3), dtype=np.uint8))
    return np.array(small.resize((side, side * count), Image.Resampling.BICUBIC)).reshape(count, side, side, 3)
