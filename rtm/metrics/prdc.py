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
from rtm.core.progress import Report, progress


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
    real: Matrix, fake: Matrix, k: int = 5, strict: bool = True, device: torch.device | str | None = None
) -> Membership:
    """The decisions behind `prdc`, one by one."""
    arrays = [distances.as_array(real, "real"), distances.as_array(fake, "fake")]
    _check(arrays, k)
    where = torch.device(device) if device else best_device()
    edge = distances.EDGE[where.type]
    reals, fakes = (-(-len(array) // edge) for array in arrays)
    total = reals * (reals + 1) // 2 + fakes * (fakes + 1) // 2 + reals * fakes
    with torch.inference_mode(), distances.full_precision(), progress("precision and recall", total) as report:
        real_points, fake_points = distances.prepare(arrays, where)
        count = _Counter(report)
        radii = [_radii(points, k, edge, count) for points in (real_points, fake_points)]
        return _members(real_points, fake_points, radii[0], radii[1], k, strict, edge, count)


def _check(arrays: list[NDArray[np.floating]], k: int) -> None:
    widths = [array.shape[1] for array in arrays]
    if widths[0] != widths[1]:
        raise UserError(f"Real and fake features differ in width, {widths[0]} and {widths[1]}: use one extractor.")
    if not 1 <= k < min(map(len, arrays)):
        raise UserError(f"k = {k} neighbours need at least {max(k, 1) + 1} images of each kind.")


class _Counter:
    """Count the tiles of all passes for one progress bar."""

    def __init__(self, report: Report) -> None:
        self.done, self.report = 0, report

    def __call__(self) -> None:
        self.done += 1
        self.report(self.done)


def smallest(rows: Ints, values: Floats, count: int, k: int) -> Floats:
    """The k smallest values of each row in order, (count, k); infinity where a row has fewer."""
    order, rank = distances.ranked(rows, values)
    first = order[rank < k]
    table = np.full((count, k), np.inf)
    table[rows[first], rank[rank < k]] = values[first]
    return table


def _radii(points: Points, k: int, edge: int, count: _Counter) -> Floats:
    """Squared distance of each point to its k-th nearest other point; each pair of tiles is multiplied once."""
    best = np.full((len(points), k), np.inf)  # the k smallest upper bounds so far
    kept: list[Pairs] = []  # every pair that may be nearer than the k-th of these bounds
    pieces = distances.blocks(len(points), edge)
    diagonal = [(i, i) for i in pieces]  # come first, so that every row has a limit before the other tiles
    for i, j in diagonal + list(combinations(pieces, 2)):
        kept.append(_near(points, i, j, best))
        if len(kept) > len(pieces):
            kept = [_nearer(Pairs.join(kept), best)]
        count()
    pairs, limit = _nearer(Pairs.join(kept), best), best[:, -1]
    least = np.minimum(smallest(pairs.rows, pairs.low, len(points), k)[:, -1], limit)  # a lower bound of every radius
    open_ = pairs.high >= least[pairs.rows]
    values = pairs.low.copy()
    values[open_] = distances.exact(points, points, pairs.where(open_)).low
    return np.asarray(np.minimum(smallest(pairs.rows, values, len(points), k)[:, -1], limit))


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
            limit[i] = np.minimum(limit[i], distances.kth_bound(points, points, i, i, values, k))
        values.masked_fill_(torch.ones_like(values, dtype=torch.bool).tril_(), -torch.inf)
    reach = distances.threshold(points, limit)
    mask = (values >= reach[i, None]) | (values >= reach[None, j])
    pairs = distances.select(points, points, i, j, values, mask)
    many = values.numel() // 64 + 2 * k * sum(values.shape)
    for sharpen in (distances.refine, distances.exact):
        if len(pairs.rows) > many:
            limit = _merged(best, pairs)[:, -1]
            pairs = sharpen(points, points, pairs.where(pairs.low <= np.maximum(limit[pairs.rows], limit[pairs.cols])))
    best[:] = _merged(best, pairs)
    return _nearer(Pairs.join([pairs, pairs._replace(rows=pairs.cols, cols=pairs.rows)]), best)


def _merged(best: Floats, pairs: Pairs) -> Floats:
    """`best` after adding the upper bounds of new pairs; each pair counts for both of its points."""
    points, high = np.concatenate([pairs.rows, pairs.cols]), np.concatenate([pairs.high, pairs.high])
    better = high < best[points, -1]
    rows, row = np.unique(points[better], return_inverse=True)
    new = smallest(row, high[better], len(rows), best.shape[1])
    merged = best.copy()
    merged[rows] = np.sort(np.concatenate([best[rows], new], axis=1), axis=1)[:, : best.shape[1]]
    return merged


def _members(
    real: Points, fake: Points, real_radii: Floats, fake_radii: Floats, k: int, strict: bool, edge: int, count: _Counter
) -> Membership:
    """Which fakes lie in which real balls, and which reals lie in fake balls."""
    inside = np.less if strict else np.less_equal
    reach_real, reach_fake = (_reach(real, radii, strict) for radii in (real_radii, fake_radii))
    balls, recalled, covered = np.zeros(len(fake), np.int64), np.zeros(len(real), bool), np.zeros(len(real), bool)
    for i in distances.blocks(len(real), edge):
        for j in distances.blocks(len(fake), edge):
            values = distances.tile(real, fake, i, j)
            mask = (values >= reach_real[i, None]) | (values >= reach_fake[None, j])
            pairs = _settled(real, fake, distances.select(real, fake, i, j, values, mask), real_radii, fake_radii)
            in_real = inside(pairs.high, real_radii[pairs.rows])
            balls += np.bincount(pairs.cols[in_real], minlength=len(fake))
            covered[pairs.rows[in_real]] = True
            recalled[pairs.rows[inside(pairs.high, fake_radii[pairs.cols])]] = True
            count()
    return Membership(balls, recalled, covered, real_radii, k)


def _reach(points: Points, radii: Floats, strict: bool) -> Tensor:
    """The thresholds of the balls. A ball of radius zero holds its own centre only if the surface counts."""
    return distances.threshold(points, radii if strict else np.maximum(radii, np.finfo(np.float64).tiny))


def _settled(real: Points, fake: Points, pairs: Pairs, real_radii: Floats, fake_radii: Floats) -> Pairs:
    """Compute pairs more exactly until no radius lies inside their error bounds, so that every decision is certain."""
    many = 1 + len(np.unique(pairs.rows)) * len(np.unique(pairs.cols)) // 64
    for sharpen in (distances.refine, distances.exact):
        open_ = np.zeros(len(pairs.rows), bool)
        for radii in (real_radii[pairs.rows], fake_radii[pairs.cols]):
            open_ |= (pairs.low <= radii) & (radii <= pairs.high)
        if sharpen is distances.exact or open_.sum() > many:
            pairs = Pairs.join([pairs.where(~open_), sharpen(real, fake, pairs.where(open_))])
    return pairs
