"""Sets of images from known Gaussians, and a check that intervals contain the true values."""

import numpy as np
from numpy.typing import NDArray

from rtm.metrics.uncertainty import Interval

Found = tuple[dict[str, float], dict[str, Interval]]
WIDTH = np.array([1.6, 1.2, 1, 0.8, 0.6, 0.4, 0.3, 0.2])


def images(random: np.random.Generator, count: int, width: int, like: float = 1.0) -> NDArray[np.float32]:
    """Features with a decaying spectrum. If `like` is 1, it is the distribution of the real images."""
    spread = np.resize(WIDTH, width)
    return np.asarray(spread * (like * random.normal(size=(count, width)) + (1 - like)), np.float32)


def right(seen: list[Found], names: tuple[str, ...]) -> None:
    """Check that the mean width agrees with the true spread, and that the intervals contain the true expectation."""
    for name in names:
        values = np.array([metrics[name] for metrics, _ in seen])
        low, high = np.array([intervals[name] for _, intervals in seen]).T
        ratio = (high - low).mean() / (2 * 1.96 * values.std(ddof=1))
        assert 0.85 <= ratio <= 1.15, f"{name}: {ratio:.2f} of the right width"
        cover = ((low <= values.mean()) & (values.mean() <= high)).mean()
        assert 0.92 <= cover <= 0.98, f"{name}: the intervals hold the truth in {cover:.1%}"
