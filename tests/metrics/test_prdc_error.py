"""Intervals of precision, recall, density and coverage against the truth: many sets from known Gaussians."""

import numpy as np
import pytest
from support.intervals import Found, images, right

from rtm.metrics.prdc import membership
from rtm.metrics.prdc_error import prdc_intervals


@pytest.mark.slow(seconds=12)
@pytest.mark.parametrize(("width", "count", "reals"), [(32, 77, 300), (8, 192, 192)])
def test_intervals_of_precision_recall_density_and_coverage_are_right(width: int, count: int, reals: int) -> None:
    random = np.random.default_rng(2)
    real = images(random, reals, width)
    seen = list[Found]()
    for _ in range(300):
        fake = images(random, count, width, 0.9)
        members = membership(real, fake, k=3)
        seen.append((members.metrics(), prdc_intervals(real, fake, members, strict=True)))
    right(seen, ("precision", "recall", "density", "coverage"))
