"""How far precision, recall, density and coverage would move with other generated images.

Precision and density are means over generated images. Recall and coverage are not: each image changes the balls of
other images, and the jackknife (leaving out one image at a time) gives up to twice the right width. Disjoint parts of
the images are independent. So the variance for half of the images and for a quarter of them is measured, averaged over
random partitions, and the variance for all images is extrapolated. docs/metrics.md has the simulations behind this.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq

from rtm.core import distances
from rtm.core.devices import best_device
from rtm.core.distances import Floats, Ints, Matrix
from rtm.metrics.prdc import Membership
from rtm.metrics.uncertainty import Interval, about, of_share

PARTITIONS = 32
SURE = 32  # if a real image is hit by so many fakes, every quarter of the generated images surely has one of them
SLOWING = 0.85  # factor of the excess of coverage's variance from one doubling to the next; 0.7 to 1.2 in simulations
HALVED = 1.2  # growth of recall's standard error if the images are halved; 1.1 to 1.35 in simulations


def prdc_intervals(real: Matrix, fake: Matrix, members: Membership, strict: bool) -> dict[str, Interval]:
    """95 % intervals by name; recall and coverage only if a quarter of the images has enough neighbours."""
    shares, density = members.metrics(), members.balls / members.k
    found = {
        "precision": of_share(shares["precision"], len(density)),
        "density": about(shares["density"], float(density.std(ddof=1)) / len(density) ** 0.5, low=0),
    }
    if len(density) // 4 <= members.k:
        return found
    contacts = _contacts(real, fake, members, strict)
    halves, quarters = (_Parts.of(contacts, parts) for parts in (2, 4))
    variances = {"recall": _of_recall(halves, quarters), "coverage": _of_coverage(contacts, halves, quarters)}
    for name, variance in variances.items():
        share, reals = shares[name], len(members.radii)
        found[name] = of_share(share, share * (1 - share) / variance if variance > 0 and 0 < share < 1 else reals)
    return found


class _Contacts(NamedTuple):
    """The data that decide recall and coverage for any part of the generated images."""

    k: int
    strict: bool
    neighbours: Ints  # (fakes, wide) the nearest other fakes of each, nearest first
    squared: Floats  # (fakes, wide) their squared distances
    reached: distances.Pairs  # a real image within the widest ball of a fake, unless it is `recalled`
    inside: distances.Pairs  # a real image whose own ball holds a fake, unless it is `covered`
    recalled: NDArray[np.bool_]  # (reals,) recalled by so many fakes that every part has some of them
    covered: NDArray[np.bool_]  # (reals,) covered by so many fakes that every part has some of them


def _contacts(real: Matrix, fake: Matrix, members: Membership, strict: bool) -> _Contacts:
    arrays = [distances.as_array(real, "real"), distances.as_array(fake, "fake")]
    k, fakes = members.k, len(arrays[1])
    wide = min(12 * k + 4, fakes - 1)  # with probability .999, a quarter of the images has k of these neighbours
    recalled, covered = np.zeros(len(arrays[0]), bool), np.zeros(len(arrays[0]), bool)
    reached, inside = list[distances.Pairs](), list[distances.Pairs]()
    within = np.less if strict else np.less_equal
    with torch.inference_mode(), distances.full_precision():
        a, b = distances.prepare(arrays, best_device())
        neighbours, squared = _neighbours(b, wide)
        j, reach = slice(0, fakes), distances.threshold(b, squared[:, -1])
        own = distances.threshold(a, members.radii)
        for i in distances.blocks(len(a), max(1, distances.TILE[a.copy.device.type] // fakes)):
            values = distances.tile(a, b, i, j)
            pairs = distances.select(a, b, i, j, values, (values >= reach[None]) | (values >= own[i, None]))
            middle = (pairs.low + pairs.high) / 2
            in_real = within(middle, members.radii[pairs.rows])
            for chosen, sure, kept, test in (
                (middle < squared[pairs.cols, -1], recalled, reached, within(middle, squared[pairs.cols, k - 1])),
                (in_real, covered, inside, in_real),
            ):
                sure |= np.bincount(pairs.rows[test], minlength=len(a)) >= SURE
                kept.append(pairs.where(chosen & ~sure[pairs.rows])._replace(low=middle[chosen & ~sure[pairs.rows]]))
    return _Contacts(
        k,
        strict,
        neighbours,
        squared,
        distances.Pairs.join(reached),
        distances.Pairs.join(inside),
        recalled,
        covered,
    )


def _neighbours(points: distances.Points, wide: int) -> tuple[Ints, Floats]:
    """The nearest other points of each point, and their squared distances. float32 is exact enough for a variance."""
    count = len(points)
    neighbours, squared, j = np.empty((count, wide), np.int64), np.empty((count, wide)), slice(0, count)
    for i in distances.blocks(count, max(1, distances.TILE[points.copy.device.type] // count)):
        values = distances.tile(points, points, i, j)
        values[:, i].fill_diagonal_(-torch.inf)
        found = values.topk(wide, dim=1)
        neighbours[i] = found.indices.cpu().numpy()
        low = -2 * found.values.cpu().numpy().astype(np.float64)
        squared[i] = np.maximum(low + points.margin[i, None] + points.margin[neighbours[i]], 0) * points.scale**2
    return neighbours, squared


class _Parts(NamedTuple):
    """Means over random partitions of the generated images into equal parts."""

    parts: int
    recall: float  # variance of recall over the parts
    coverage: float  # variance of coverage
    missed: float  # share of real images that a part does not cover
    once: float  # share of real images whose ball holds exactly one image of a part

    @classmethod
    def of(cls, contacts: _Contacts, parts: int) -> "_Parts":
        random = np.random.default_rng(parts)
        drawn = [
            _of_partition(contacts, random.permutation(len(contacts.squared)) % parts, parts) for _ in range(PARTITIONS)
        ]
        return cls(parts, *(float(each) for each in np.mean(drawn, axis=0)))


def _of_partition(contacts: _Contacts, label: Ints, parts: int) -> tuple[float, float, float, float]:
    same = label[contacts.neighbours] == label[:, None]
    enough = same.cumsum(axis=1) >= contacts.k
    last = np.where(enough.any(axis=1), enough.argmax(axis=1), same.shape[1] - 1)
    radii = np.take_along_axis(contacts.squared, last[:, None], axis=1)[:, 0]
    within = np.less if contacts.strict else np.less_equal
    near = contacts.reached.where(within(contacts.reached.low, radii[contacts.reached.cols]))
    recalled = _counts(near, label, parts, contacts.recalled) > 0
    held = _counts(contacts.inside, label, parts, contacts.covered)
    recall, coverage = (each.mean(axis=1).var(ddof=1) for each in (recalled, held > 0))
    return float(recall), float(coverage), float((held == 0).mean()), float((held == 1).mean())


def _counts(pairs: distances.Pairs, label: Ints, parts: int, sure: NDArray[np.bool_]) -> Ints:
    """(parts, reals): how many images of each part are paired with each real image."""
    counts = np.bincount(label[pairs.cols] * len(sure) + pairs.rows, minlength=parts * len(sure))
    return np.asarray(counts.reshape(parts, -1) + SURE * sure)


def _of_recall(halves: _Parts, quarters: _Parts) -> float:
    """The variance of recall for all images. The ratio from a half to all is the geometric mean of two estimates: the
    ratio from a quarter to a half, which is noisy, and `HALVED`."""
    if halves.recall <= 0:
        return 0.0
    step = np.clip(np.sqrt(quarters.recall / halves.recall), 1, np.sqrt(2))
    return halves.recall / float(step * HALVED)


def _of_coverage(contacts: _Contacts, halves: _Parts, quarters: _Parts) -> float:
    """The variance of coverage for all images, from the variance for real balls that share no fakes.

    Without shared fakes, and with a random number of images, the variance is sum(P - P^2) / reals^2. Here P is the
    probability that a real image is missed, and P^2 is this probability with twice the images. Shared fakes multiply
    the variance by a factor; its excess over 1 falls from a quarter to a half and from a half to all images. Because
    the number of images is fixed, `once`^2 / images is subtracted.
    """
    held = _counts(contacts.inside, np.zeros(len(contacts.squared), np.int64), 1, contacts.covered)[0]
    missed, once = float((held == 0).mean()), float((held == 1).mean())
    if not 0 < missed < halves.missed < quarters.missed:
        return 0.0
    images, reals = len(contacts.squared), len(held)
    excess = [
        (part.coverage + part.once**2 * part.parts / images) * reals / (part.missed - later) - 1
        for part, later in ((halves, missed), (quarters, halves.missed))
    ]
    step = np.clip(excess[0] / max(excess[1], 1e-9), 0, 1) * SLOWING
    factor = 1 + max(excess[0], 0.0) * float(step)
    once_more = missed * (1 - _missed_again(quarters.missed, halves.missed, missed))
    return max(factor * once_more / reals - once**2 / images, 0.0)


def _missed_again(quarter: float, half: float, whole: float) -> float:
    """P(missed with twice the images) / P(missed), if P(missed with t times the images) is (1 + t s)^-a."""
    first, second = np.log(half / quarter), np.log(whole / half)

    def growth(s: float, t: float) -> float:
        return float(np.log1p(2 * t * s) - np.log1p(t * s))

    def misfit(log_s: float) -> float:
        s = float(np.exp(log_s))
        return growth(s, 1 / 2) / growth(s, 1 / 4) - float(second / first)

    low, high = -8.0, 8.0  # s = 0: all real images have one P; infinite s: P is 0 or 1
    best = brentq(misfit, low, high) if misfit(low) > 0 > misfit(high) else (low if misfit(low) <= 0 else high)
    return float(np.exp(second * growth(np.exp(best), 1) / growth(np.exp(best), 1 / 2)))
