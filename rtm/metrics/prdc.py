"""Precision, recall (Kynkäänniemi et al. 2019), density and coverage (Naeem et al. 2020), decided exactly.

The radius of a point's ball is the distance to the point's k-th nearest neighbour in its own set. `strict` says whether
a point on the surface is outside (prdc and StudioGAN: `<`) or inside (torch-fidelity: `<=`).
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rtm.core import distances
from rtm.core.devices import best_device
from rtm.core.distances import Floats, Ints, Matrix, Pairs, Points
from rtm.core.errors import UserError
from rtm.core.progress import ProgressReport, progress


@dataclass(frozen=True)
class Membership:
    """Which points lie in which balls; the four metrics are means over these."""

    balls: Ints  # (fakes,) how many real balls hold each fake
    recalled: NDArray[np.bool_]  # (reals,) lies in the ball of some fake
    covered: NDArray[np.bool_]  # (reals,) some fake lies in its ball
    radii: Floats  # (reals,) squared radii of their balls
    k: int

    def metrics(self) -> dict[str, float]:
        return {
            "precision": float((self.balls > 0).mean()),
            "recall": float(self.recalled.mean()),
            "density": float(self.balls.mean() / self.k),
            "coverage": float(self.covered.mean()),
        }


def prdc(
    real: Matrix,  # (reals, d) numpy or torch
    fake: Matrix,  # (fakes, d)
    k: int = 5,  # neighbours that make a radius
    strict: bool = True,  # `<`; False: `<=`
    device: torch.device | str | None = None,  # by default a GPU if there is one; the result is the same everywhere
) -> dict[str, float]:
    """Precision, recall, density and coverage of `fake` against `real`, by name."""
    return membership(real, fake, k, strict, device).metrics()


def membership(
    real: Matrix,
    fake: Matrix,
    k: int = 5,
    strict: bool = True,
    device: torch.device | str | None = None,
) -> Membership:
    """The decisions behind `prdc`, one by one."""
    arrays = [distances.as_array(real, "real"), distances.as_array(fake, "fake")]
    _check(arrays, k)
    where = torch.device(device) if device else best_device()
    edge = distances.EDGE[where.type]
    rows, cols = (len(distances.blocks(len(array), edge)) for array in arrays)  # tiles of both sets
    among_reals = rows * (rows + 1) // 2
    among_fakes = cols * (cols + 1) // 2
    total = among_reals + among_fakes + rows * cols
    with torch.inference_mode(), distances.full_precision(), progress("precision and recall", total) as report:
        real_points, fake_points = distances.prepare(arrays, where)
        count = _Counter(report)
        real_balls = _Balls(real_points, _radii(real_points, k, edge, count), strict)
        fake_balls = _Balls(fake_points, _radii(fake_points, k, edge, count), strict)
        return _members(real_balls, fake_balls, k, edge, count)


def _check(arrays: list[NDArray[np.floating]], k: int) -> None:
    real, fake = arrays
    if real.shape[1] != fake.shape[1]:
        widths = f"{real.shape[1]} and {fake.shape[1]}"
        raise UserError(f"Real and fake features differ in width, {widths}: use one extractor.")
    if not 1 <= k < min(len(real), len(fake)):
        raise UserError(f"k = {k} neighbours need at least {max(k, 1) + 1} images of each kind.")


class _Counter:
    """Count the tiles of all passes for one progress bar."""

    def __init__(self, report: ProgressReport) -> None:
        self.done = 0
        self.report = report

    def __call__(self) -> None:
        self.done += 1
        self.report(self.done)


def smallest(rows: Ints, values: Floats, count: int, k: int) -> Floats:
    """The k smallest values of each row in order, (count, k); infinity where a row has fewer."""
    order, rank = distances.ranked(rows, values)
    first = rank < k
    pairs = order[first]
    table = np.full((count, k), np.inf)
    table[rows[pairs], rank[first]] = values[pairs]
    return table


def _radii(
    points: Points,
    k: int,
    edge: int,  # rows and columns of a tile
    count: _Counter,
) -> Floats:
    """Squared distance of each point to its k-th nearest other point; each pair of tiles is multiplied once."""
    best = np.full((len(points), k), np.inf)  # the k smallest upper bounds so far
    candidates: list[Pairs] = []  # every pair that may be nearer than the k-th of these bounds
    pieces = distances.blocks(len(points), edge)
    diagonal = [(i, i) for i in pieces]  # come first, so that every row has a limit before the other tiles
    for i, j in diagonal + list(combinations(pieces, 2)):
        candidates.append(_near(points, i, j, best))
        if len(candidates) > len(pieces):
            candidates = [_nearer(Pairs.join(candidates), best)]
        count()
    pairs = _nearer(Pairs.join(candidates), best)
    limit = best[:, -1]
    least = _kth(pairs, pairs.low, k, limit)  # a lower bound of every radius
    doubtful = pairs.high >= least[pairs.rows]
    values = pairs.low.copy()
    values[doubtful] = distances.exact(points, points, pairs.where(doubtful)).low
    return _kth(pairs, values, k, limit)


def _kth(pairs: Pairs, values: Floats, k: int, limit: Floats) -> Floats:
    """The k-th smallest value of each row, at most its limit."""
    nearest = smallest(pairs.rows, values, len(limit), k)
    return np.minimum(nearest[:, -1], limit)


def _nearer(pairs: Pairs, best: Floats) -> Pairs:
    return pairs.where(pairs.low < best[pairs.rows, -1])


def _near(points: Points, i: slice, j: slice, best: Floats) -> Pairs:
    """The pairs of a tile, in both orders, that may be among the k nearest of their row. Also update `best`."""
    k = best.shape[1]
    values = distances.tile(points, points, i, j)
    limit = best[:, -1].copy()
    if i == j:
        values.fill_diagonal_(-torch.inf)
        if k < len(values):  # otherwise there are too few others in this tile
            bound = distances.kth_bound(points, points, i, i, values, k)
            limit[i] = np.minimum(limit[i], bound)
        below = torch.ones_like(values, dtype=torch.bool).tril_()
        values.masked_fill_(below, -torch.inf)
    reach = distances.threshold(points, limit)
    mask = (values >= reach[i, None]) | (values >= reach[None, j])
    pairs = distances.select(points, points, i, j, values, mask)
    many = values.numel() // 64 + 2 * k * sum(values.shape)
    for sharpen in (distances.refine, distances.exact):
        if len(pairs.rows) > many:
            limit = _merged(best, pairs)[:, -1]
            possible = pairs.low <= np.maximum(limit[pairs.rows], limit[pairs.cols])
            pairs = sharpen(points, points, pairs.where(possible))
    best[:] = _merged(best, pairs)
    mirrored = pairs._replace(rows=pairs.cols, cols=pairs.rows)
    return _nearer(Pairs.join([pairs, mirrored]), best)


def _merged(best: Floats, pairs: Pairs) -> Floats:
    """`best` after adding the upper bounds of new pairs; each pair counts for both of its points."""
    k = best.shape[1]
    points = np.concatenate([pairs.rows, pairs.cols])
    high = np.concatenate([pairs.high, pairs.high])
    better = high < best[points, -1]
    rows, row = np.unique(points[better], return_inverse=True)
    new = smallest(row, high[better], len(rows), k)
    both = np.concatenate([best[rows], new], axis=1)
    both.sort(axis=1)
    merged = best.copy()
    merged[rows] = both[:, :k]
    return merged


@dataclass(frozen=True)
class _Balls:
    points: Points  # the centres
    radii: Floats  # squared
    strict: bool

    def reach(self) -> Tensor:
        """The thresholds of the balls. A ball of radius zero holds its own centre only if the surface counts."""
        radii = self.radii
        if not self.strict:
            radii = np.maximum(radii, np.finfo(np.float64).tiny)
        return distances.threshold(self.points, radii)

    def hold(self, centres: Ints, squared: Floats) -> NDArray[np.bool_]:
        """Whether points at these distances from the centres are inside."""
        inside = np.less if self.strict else np.less_equal
        return np.asarray(inside(squared, self.radii[centres]))


def _members(
    real: _Balls,
    fake: _Balls,
    k: int,
    edge: int,  # rows and columns of a tile
    count: _Counter,
) -> Membership:
    """Which fakes lie in which real balls, and which reals lie in fake balls."""
    reach_real = real.reach()
    reach_fake = fake.reach()
    fakes = len(fake.points)
    balls = np.zeros(fakes, np.int64)
    recalled = np.zeros(len(real.points), bool)
    covered = np.zeros(len(real.points), bool)
    for i in distances.blocks(len(real.points), edge):
        for j in distances.blocks(fakes, edge):
            values = distances.tile(real.points, fake.points, i, j)
            mask = (values >= reach_real[i, None]) | (values >= reach_fake[None, j])
            pairs = distances.select(real.points, fake.points, i, j, values, mask)
            pairs = _settled(real, fake, pairs)
            in_real = real.hold(pairs.rows, pairs.high)
            in_fake = fake.hold(pairs.cols, pairs.high)
            balls += np.bincount(pairs.cols[in_real], minlength=fakes)
            covered[pairs.rows[in_real]] = True
            recalled[pairs.rows[in_fake]] = True
            count()
    return Membership(balls, recalled, covered, real.radii, k)


def _settled(real: _Balls, fake: _Balls, pairs: Pairs) -> Pairs:
    """Compute pairs more exactly until no radius lies inside their error bounds, so that every decision is certain."""
    rows = len(np.unique(pairs.rows))
    cols = len(np.unique(pairs.cols))
    many = 1 + rows * cols // 64
    for sharpen in (distances.refine, distances.exact):
        doubtful = _encloses(pairs, real.radii[pairs.rows])
        doubtful |= _encloses(pairs, fake.radii[pairs.cols])
        if sharpen is distances.exact or doubtful.sum() > many:
            sharper = sharpen(real.points, fake.points, pairs.where(doubtful))
            pairs = Pairs.join([pairs.where(~doubtful), sharper])
    return pairs


def _encloses(pairs: Pairs, radii: Floats) -> NDArray[np.bool_]:
    return np.asarray((pairs.low <= radii) & (radii <= pairs.high))
