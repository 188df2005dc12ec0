"""Width and coverage of the metrics' 95 % intervals if features are not Gaussian: heavy tails, and two clusters.

`python -m benchmarks.intervals` prints them. Right values are a width of 1 and a coverage of 95 %. The tests of
intervals (tests/metrics/test_uncertainty.py, test_prdc_error.py) do the same with Gaussians.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.inception_score import inception_score, inception_score_error
from rtm.metrics.kid import Kernel, kernel_distance
from rtm.metrics.prdc import membership
from rtm.metrics.prdc_error import prdc_intervals
from rtm.metrics.uncertainty import Interval, about, frechet_error

Features = NDArray[np.float32]
Draw = Callable[[np.random.Generator, int, int, float], Features]
Found = tuple[dict[str, float], dict[str, Interval]]
SPECTRUM = np.array([1.6, 1.2, 1, 0.8, 0.6, 0.4, 0.3, 0.2])
CLASSES = 6


def student(random: np.random.Generator, count: int, width: int, like: float) -> Features:
    """Student's t with 5 degrees of freedom and variance 1; if `like` is 1, it is the real images' distribution."""
    drawn = random.standard_t(5, size=(count, width)) / np.sqrt(5 / 3)
    return np.asarray(np.resize(SPECTRUM, width) * (like * drawn + (1 - like)), np.float32)


def clusters(random: np.random.Generator, count: int, width: int, like: float) -> Features:
    """Two clusters, six deviations apart: real images half and half, generated images 30 to 70."""
    side = np.where(random.random((count, 1)) < (0.5 if like == 1 else 0.3), -3.0, 3.0)
    drawn = random.normal(size=(count, width))
    drawn[:, :1] += side
    return np.asarray(np.resize(SPECTRUM, width) * (like * drawn + (1 - like)), np.float32)


def distances(
    draw: Draw,
    width: int,
    count: int,
    like: float,
    sets: int = 200,
) -> list[Found]:
    random = np.random.default_rng(11)
    seen = list[Found]()
    real = draw(random, 800, width, 1.0)
    statistics = Statistics.of(real)
    kernel = Kernel.of(real)
    for _ in range(sets):
        features = draw(random, count, width, like)
        fake = Statistics.of(features)
        logits = features[:, :CLASSES]
        values = {
            "fid": (frechet_distance(statistics, fake), frechet_error(statistics, fake)),
            "kid": kernel_distance(kernel, features),
            "is": (inception_score(logits, 2)[0], inception_score_error(logits, 2)),
        }
        intervals = {name: about(value, error) for name, (value, error) in values.items()}
        seen.append(({name: value for name, (value, _) in values.items()}, intervals))
    return seen


def memberships(
    draw: Draw,
    width: int,
    count: int,
    reals: int,
    sets: int = 150,
) -> list[Found]:
    random = np.random.default_rng(12)
    seen = list[Found]()
    real = draw(random, reals, width, 1.0)
    for _ in range(sets):
        fake = draw(random, count, width, 0.9)
        members = membership(real, fake, k=3)
        seen.append((members.metrics(), prdc_intervals(real, fake, members, strict=True)))
    return seen


def show(title: str, seen: list[Found]) -> None:
    for name in seen[0][0]:
        values = np.array([metrics[name] for metrics, _ in seen])
        low, high = np.array([intervals[name] for _, intervals in seen]).T
        width = (high - low).mean() / (2 * 1.96 * values.std(ddof=1))
        cover = ((low <= values.mean()) & (values.mean() <= high)).mean()
        print(f"{title}, {name}: width {width:.2f}, cover {cover:.1%}")


if __name__ == "__main__":
    for draw in (student, clusters):
        for like in (0.8, 0.95):
            for width, count in ((64, 154), (24, 576)):
                title = f"{draw.__name__}, {count / width:.1f} images a dimension"
                show(f"{title}, like {like}", distances(draw, width, count, like))
        for width, count, reals in ((32, 77, 300), (8, 192, 192)):
            show(f"{draw.__name__}, {count / width:.1f} images a dimension", memberships(draw, width, count, reals))
