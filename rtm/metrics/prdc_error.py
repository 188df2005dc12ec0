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
from rtm.core.distances import Floats, Ints, Matrix, Pairs
from rtm.metrics.prdc import Membership
from rtm.metrics.uncertainty import Interval, about, of_share

PARTITIONS = 32
SURE = 32  # if a real image is hit by so many fakes, every quarter of the generated images surely has one of them
SLOWING = 0.85  # factor of the excess of coverage's variance from one doubling to the next; 0.7 to 1.2 in simulations
HALVED = 1.2  # growth of recall's standard error if the images are halved; 1.1 to 1.35 in simulations


def prdc_intervals(
    real: Matrix,
    fake: Matrix,
    members: Membership,  # the decisions about the same images
    strict: bool,
) -> dict[str, Interval]:
    """95 % intervals by name; recall and coverage only if a quarter of the images has enough neighbours."""
    shares = members.metrics()
    density = members.balls / members.k
    fakes = len(density)
    density_error = float(density.std(ddof=1)) / fakes**0.5
    intervals = {
        "precision": of_share(shares["precision"], fakes),
        "density": about(shares["density"], density_error, low=0),
    }
    if fakes // 4 <= members.k:
        return intervals
    contacts = _contacts(real, fake, members, strict)
    halves = _Parts.of(contacts, 2)
    quarters = _Parts.of(contacts, 4)
    variances = {"recall": _of_recall(halves, quarters), "coverage": _of_coverage(contacts, halves, quarters)}
    for name, variance in variances.items():
        share = shares[name]
        images: float = len(members.radii)
        if variance > 0 and 0 < share < 1:
            images = share * (1 - share) / variance  # as many independent ones have this variance
        intervals[name] = of_share(share, images)
    return intervals


class _Contacts(NamedTuple):
    """The data that decide recall and coverage for any part of the generated images."""

    k: int
    strict: bool
    neighbours: Ints  # (fakes, wide) the nearest other fakes of each, nearest first
    squared: Floats  # (fakes, wide) their squared distances
    reached: Pairs  # a real image within the widest ball of a fake, unless it is `recalled`
    inside: Pairs  # a real image whose own ball holds a fake, unless it is `covered`
    recalled: NDArray[np.bool_]  # (reals,) recalled by so many fakes that every part has some of them
    covered: NDArray[np.bool_]  # (reals,) covered by so many fakes that every part has some of them


def _contacts(real: Matrix, fake: Matrix, members: Membership, strict: bool) -> _Contacts:
    arrays = [distances.as_array(real, "real"), distances.as_array(fake, "fake")]
    reals, fakes = map(len, arrays)
    k = members.k
    wide = min(12 * k + 4, fakes - 1)  # with probability .999, a quarter of the images has k of these neighbours
    within = np.less if strict else np.less_equal
    recalled = np.zeros(reals, bool)
    covered = np.zeros(reals, bool)
    reached: list[Pairs] = []
    inside: list[Pairs] = []
    with torch.inference_mode(), distances.full_precision():
        a, b = distances.prepare(arrays, best_device())
        neighbours, squared = _neighbours(b, wide)
        reach = distances.threshold(b, squared[:, -1])
        own = distances.threshold(a, members.radii)
        j = slice(0, fakes)
        for i in distances.blocks(reals, max(1, distances.TILE[a.copy.device.type] // fakes)):
            values = distances.tile(a, b, i, j)
            mask = (values >= reach[None]) | (values >= own[i, None])
            pairs = distances.select(a, b, i, j, values, mask)
            middle = (pairs.low + pairs.high) / 2
            pairs = pairs._replace(low=middle)
            in_fake = within(middle, squared[pairs.cols, k - 1])
            in_real = within(middle, members.radii[pairs.rows])
            in_widest = middle < squared[pairs.cols, -1]
            recalled |= _is_sure(pairs.rows[in_fake], reals)
            covered |= _is_sure(pairs.rows[in_real], reals)
            reached.append(pairs.where(in_widest & ~recalled[pairs.rows]))
            inside.append(pairs.where(in_real & ~covered[pairs.rows]))
    return _Contacts(
        k,
        strict,
        neighbours,
        squared,
        reached=Pairs.join(reached),
        inside=Pairs.join(inside),
        recalled=recalled,
        covered=covered,
    )


def _is_sure(rows: Ints, reals: int) -> NDArray[np.bool_]:
    return np.asarray(np.bincount(rows, minlength=reals) >= SURE)


def _neighbours(points: distances.Points, wide: int) -> tuple[Ints, Floats]:
    """The nearest other points of each point, and their squared distances. float32 is exact enough for a variance."""
    count = len(points)
    neighbours = np.empty((count, wide), np.int64)
    squared = np.empty((count, wide))
    j = slice(0, count)
    for i in distances.blocks(count, max(1, distances.TILE[points.copy.device.type] // count)):
        values = distances.tile(points, points, i, j)
        values[:, i].fill_diagonal_(-torch.inf)
        top = values.topk(wide, dim=1)
        neighbours[i] = top.indices.cpu().numpy()
        low = -2 * top.values.cpu().numpy().astype(np.float64)
        of_others = points.margin[neighbours[i]]
        margins = low + points.margin[i, None] + of_others
        squared[i] = np.maximum(margins, 0) * points.scale**2
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
        rows = []
        for _ in range(PARTITIONS):
            label = random.permutation(len(contacts.squared)) % parts
            rows.append(_of_partition(contacts, label, parts))
        recall, coverage, missed, once = np.mean(rows, axis=0).tolist()
        return cls(parts, recall, coverage, missed, once)


def _of_partition(contacts: _Contacts, label: Ints, parts: int) -> tuple[float, float, float, float]:
    same = label[contacts.neighbours] == label[:, None]
    enough = same.cumsum(axis=1) >= contacts.k
    wide = same.shape[1]
    last = np.where(enough.any(axis=1), enough.argmax(axis=1), wide - 1)
    radii = np.take_along_axis(contacts.squared, last[:, None], axis=1)
    radii = radii[:, 0]
    within = np.less if contacts.strict else np.less_equal
    pairs = contacts.reached
    near = pairs.where(within(pairs.low, radii[pairs.cols]))
    recalled = _counts(near, label, parts, contacts.recalled) > 0
    held = _counts(contacts.inside, label, parts, contacts.covered)
    recall = recalled.mean(axis=1).var(ddof=1)
    coverage = (held > 0).mean(axis=1).var(ddof=1)
    missed = (held == 0).mean()
    once = (held == 1).mean()
    return float(recall), float(coverage), float(missed), float(once)


def _counts(
    pairs: Pairs,
    label: Ints,  # (fakes,) the part of each
    parts: int,
    sure: NDArray[np.bool_],  # (reals,) paired with some of every part
) -> Ints:
    """(parts, reals): how many images of each part are paired with each real image."""
    cells = label[pairs.cols] * len(sure) + pairs.rows
    counts = np.bincount(cells, minlength=parts * len(sure))
    return np.asarray(counts.reshape(parts, -1) + SURE * sure)


def _of_recall(halves: _Parts, quarters: _Parts) -> float:
    """The variance of recall for all images. The ratio from a half to all is the geometric mean of two estimates: the
    ratio from a quarter to a half, which is noisy, and `HALVED`."""
    if halves.recall <= 0:
        return 0.0
    ratio = np.sqrt(quarters.recall / halves.recall)
    step = np.clip(ratio, 1, np.sqrt(2))
    return halves.recall / float(step * HALVED)


def _of_coverage(contacts: _Contacts, halves: _Parts, quarters: _Parts) -> float:
    """The variance of coverage for all images, from the variance for real balls that share no fakes.

    Without shared fakes, and with a random number of images, the variance is sum(P - P^2) / reals^2. Here P is the
    probability that a real image is missed, and P^2 is this probability with twice the images. Shared fakes multiply
    the variance by a factor; its excess over 1 falls from a quarter to a half and from a half to all images. Because
    the number of images is fixed, `once`^2 / images is subtracted.
    """
    images = len(contacts.squared)
    whole = np.zeros(images, np.int64)
    held = _counts(contacts.inside, whole, 1, contacts.covered)[0]
    reals = len(held)
    missed = float((held == 0).mean())
    once = float((held == 1).mean())
    if not 0 < missed < halves.missed < quarters.missed:
        return 0.0

    def excess(part: _Parts, later: float) -> float:
        variance = part.coverage + part.once**2 * part.parts / images
        return variance * reals / (part.missed - later) - 1

    of_halves = excess(halves, missed)
    of_quarters = excess(quarters, halves.missed)
    step = np.clip(of_halves / max(of_quarters, 1e-9), 0, 1) * SLOWING
    factor = 1 + max(of_halves, 0.0) * float(step)
    once_more = missed * (1 - _missed_again(quarters.missed, halves.missed, missed))
    return max(factor * once_more / reals - once**2 / images, 0.0)


def _missed_again(quarter: float, half: float, whole: float) -> float:
    """P(missed with twice the images) / P(missed), if P(missed with t times the images) is (1 + t s)^-a."""
    first = np.log(half / quarter)
    second = np.log(whole / half)

    def growth(s: float, t: float) -> float:
        return float(np.log1p(2 * t * s) - np.log1p(t * s))

    def misfit(log_s: float) -> float:
        s = float(np.exp(log_s))
        ratio = growth(s, 1 / 2) / growth(s, 1 / 4)
        return ratio - float(second / first)

    low = -8.0  # s = 0: all real images have one P
    high = 8.0  # infinite s: P is 0 or 1
    best = low if misfit(low) <= 0 else high
    if misfit(low) > 0 > misfit(high):
        best = brentq(misfit, low, high)
    s = np.exp(best)
    logarithm = second * growth(s, 1) / growth(s, 1 / 2)
    return float(np.exp(logarithm))
