"""Exact decisions about Euclidean distances at the speed of float32 matrix products.

A squared distance is enclosed, low <= |x - y|^2 <= high, on a ladder of three rungs:
  1. a float32 product of whole tiles, which settles nearly every pair,
  2. a float64 product of each cluster, about its own mean, where a tile leaves many pairs open,
  3. the differences themselves in float64, added in one fixed order: the value that decides, ties included.

The enclosure (u = the unit roundoff, N = the squared norm of a centred row, d = the number of features):
a product of d terms added in any order is off by at most d u |x||y| (Higham, Accuracy and Stability, 3.5) and
2 |x||y| <= N_x + N_y; rounding the centred rows moves |x - y|^2 by at most 4 u (N_x + N_y); the two subtractions
and the rounded norms cost at most 5 u (N_x + N_y). So |computed - true| <= margin_x + margin_y with
margin = (d + 12) u N, and a tiny constant for underflow.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from rtm.core.errors import UserError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = NDArray[np.floating] | Tensor

_UNDERFLOW = 2.0**-100  # far above what d subnormal products can lose, far below any margin that matters
_CHUNK = 1 << 20  # numbers held at once where rows are gathered


@dataclass(frozen=True)
class Points:
    """One set of features and its centred float32 copy on the device, both sets about the same centre."""

    features: NDArray[np.floating]  # (n, d), as given
    identity: Ints  # (n,), equal for equal rows
    scale: float  # a power of two: the copy's norms are at most 1
    copy: Tensor  # (n, d) float32
    half: Tensor  # (n,) float32, (N - margin) / 2
    margin: Floats  # (n,), in the copy's units

    def __len__(self) -> int:
        return len(self.features)


@dataclass(frozen=True)
class Pairs:
    """Pairs (row of one set, row of another) with an enclosure of their squared distance."""

    rows: Ints
    cols: Ints
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.rows)

    def where(self, mask: NDArray[np.bool_] | Ints) -> "Pairs":
        return Pairs(self.rows[mask], self.cols[mask], self.low[mask], self.high[mask])

    def swapped(self) -> "Pairs":
        return replace(self, rows=self.cols, cols=self.rows)

    @staticmethod
    def join(parts: list["Pairs"]) -> "Pairs":
        names = ("rows", "cols", "low", "high")
        return Pairs(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def as_array(features: Matrix, name: str) -> NDArray[np.floating]:
    """The features as a numpy matrix, checked."""
    array = features.detach().cpu().numpy() if isinstance(features, Tensor) else np.asarray(features)
    if array.ndim != 2 or 0 in array.shape:
        raise UserError(f"The {name} features must be a non-empty matrix (images, features), not {array.shape}.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    for rows in _chunks(len(array), array.shape[1]):
        bad = ~np.isfinite(array[rows]).all(axis=1)
        if bad.any():
            first = rows.start + int(bad.argmax())
            raise UserError(f"The {name} features hold NaN or infinity (first in row {first}): extract them again.")
    return array


def _chunks(count: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK // width)
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _identity(arrays: list[NDArray[np.floating]]) -> list[Ints]:
    """Number the rows of all arrays so that equal rows have equal numbers (by a 128-bit hash)."""
    numbers: dict[bytes, int] = {}
    common = np.result_type(*arrays)

    def number(row: NDArray[np.floating]) -> int:
        row = row.astype(common, copy=False)
        return numbers.setdefault(hashlib.blake2b(row.tobytes(), digest_size=16).digest(), len(numbers))

    return [np.fromiter((number(row) for row in array), np.int64, len(array)) for array in arrays]


def prepare(arrays: list[NDArray[np.floating]], device: torch.device) -> list[Points]:
    """Centre all sets about their common mean and scale them by one power of two."""
    width = arrays[0].shape[1]
    count = sum(map(len, arrays))
    total = sum(array[rows].sum(axis=0, dtype=np.float64) for array in arrays for rows in _chunks(len(array), width))
    centre: Floats = np.asarray(total) / count
    largest = max(
        float(np.square(array[rows] - centre).sum(axis=1).max())
        for array in arrays
        for rows in _chunks(len(array), width)
    )
    scale = 2.0 ** np.ceil(np.log2(largest) / 2 + 0.01) if largest > 0 else 1.0
    numbers = _identity(arrays)
    return [_points(array, identity, centre, scale, device) for array, identity in zip(arrays, numbers, strict=True)]


def _points(array: NDArray[np.floating], identity: Ints, centre: Floats, scale: float, device: torch.device) -> Points:
    copy = torch.empty(array.shape, dtype=torch.float32)
    norms = np.empty(len(array))
    for rows in _chunks(*array.shape):
        copy[rows] = torch.from_numpy((array[rows] - centre) / scale)
        norms[rows] = copy[rows].double().square().sum(dim=1)
    margin = 1.01 * (array.shape[1] + 12) * 2.0**-24 * norms + _UNDERFLOW
    half = torch.from_numpy((norms - margin) / 2).float()
    return Points(array, identity, scale, copy.to(device), half.to(device), margin)


@contextmanager
def full_precision() -> Iterator[None]:
    """Float32 products in float32: no bound holds for the shorter formats that a device may use instead."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def tile(a: Points, b: Points, i: slice, j: slice) -> Tensor:
    """First rung: minus half the lower bound of each squared distance, in the copy's units."""
    return (a.copy[i] @ b.copy[j].T).sub_(a.half[i, None]).sub_(b.half[None, j])


def threshold(points: Points, limit: Floats) -> Tensor:
    """What `tile` must reach for the squared distance to be possibly below `limit`; nothing is below zero."""
    reach = np.nextafter((-limit / (2 * points.scale**2)).astype(np.float32), np.float32(-np.inf))
    return torch.from_numpy(np.where(limit > 0, reach, np.float32(np.inf))).to(points.copy.device)


def select(a: Points, b: Points, i: slice, j: slice, values: Tensor, mask: Tensor) -> Pairs:
    """The pairs of a tile where `mask` holds, with the enclosure that `tile` gave them."""
    flat = np.flatnonzero(mask.cpu().numpy())
    chosen = values.flatten()[torch.from_numpy(flat).to(values.device)]
    low = -2 * chosen.cpu().numpy().astype(np.float64)
    rows, cols = np.divmod(flat, values.shape[1])
    rows, cols = rows + i.start, cols + j.start
    high = low + 2 * (a.margin[rows] + b.margin[cols])
    return Pairs(rows, cols, np.maximum(low, 0) * a.scale**2, np.maximum(high, 0) * a.scale**2)


def refine(a: Points, b: Points, pairs: Pairs) -> Pairs:
    """Second rung: pairs that hang together form a cluster; a float64 product for each, about its own mean."""
    rows, row = np.unique(pairs.rows, return_inverse=True)
    cols, col = np.unique(pairs.cols, return_inverse=True)
    nodes = len(rows) + len(cols)
    graph = coo_array((np.ones(len(pairs), bool), (row, len(rows) + col)), shape=(nodes, nodes))
    label = connected_components(graph, directed=False)[1][row]
    few = np.bincount(label)[label] < 16  # cheaper by differences than a product each
    order = np.flatnonzero(~few)[np.argsort(label[~few], kind="stable")]
    clusters = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    return Pairs.join([exact(a, b, pairs.where(few)), *(_product(a, b, pairs.where(cluster)) for cluster in clusters)])


def _product(a: Points, b: Points, pairs: Pairs) -> Pairs:
    rows, row = np.unique(pairs.rows, return_inverse=True)
    cols, col = np.unique(pairs.cols, return_inverse=True)
    x = torch.from_numpy(a.features[rows].astype(np.float64)).to(a.copy.device)
    y = torch.from_numpy(b.features[cols].astype(np.float64)).to(a.copy.device)
    centre = x.mean(dim=0)
    x, y = x.sub_(centre), y.sub_(centre)
    norms_x, norms_y = (v.square().sum(dim=1).cpu().numpy() for v in (x, y))
    norms = norms_x[row] + norms_y[col]
    product = (x @ y.T).flatten()[torch.from_numpy(row * len(cols) + col).to(x.device)]
    computed = norms - 2 * product.cpu().numpy()
    margin = 1.01 * (2 * x.shape[1] + 12) * 2.0**-53 * norms  # 2 d: here the norms are rounded as well
    return replace(pairs, low=np.maximum(computed - margin, 0), high=np.maximum(computed + margin, 0))


def exact(a: Points, b: Points, pairs: Pairs) -> Pairs:
    """Third rung: the squared differences in float64, equal rows known without them."""
    squared = np.zeros(len(pairs))
    open_ = np.flatnonzero(a.identity[pairs.rows] != b.identity[pairs.cols])
    for chunk in _chunks(len(open_), a.features.shape[1]):
        which = open_[chunk]
        difference = a.features[pairs.rows[which]].astype(np.float64) - b.features[pairs.cols[which]]
        squared[which] = _sum_rows(np.square(difference, out=difference))
    return replace(pairs, low=squared, high=squared)


def _sum_rows(values: Floats) -> Floats:
    """Sum each row by halving it, in place: the same order for every pair, so that equal differences stay equal."""
    width = values.shape[1]
    while width > 1:
        half = (width + 1) // 2
        values[:, : width - half] += values[:, half:width]
        width = half
    return values[:, 0]


def blocks(count: int, edge: int) -> list[slice]:
    """Cut range(count) into equal slices of at most `edge`."""
    pieces = -(-count // edge)
    ends = [count * piece // pieces for piece in range(pieces + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def edge_for(device: torch.device) -> int:
    return 8192 if device.type == "cuda" else 1024
