"""Exact decisions about Euclidean distances at the speed of float32 matrix products.

A squared distance is enclosed, low <= |x - y|^2 <= high, in three steps, each more exact and slower than the last:
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
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from rtm.core.devices import best_device
from rtm.core.errors import UserError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Matrix: TypeAlias = NDArray[np.floating] | Tensor

FLOAT32 = 2.0**-24  # unit roundoffs
FLOAT64 = 2.0**-53
TILE = {"cpu": 2**23, "cuda": 2**27}  # number of distances in a tile with complete rows
EDGE = {"cpu": 2**10, "cuda": 2**13}  # rows and columns of other tiles
_UNDERFLOW = 2.0**-100  # far above the loss of d subnormal products, far below any margin that matters
_CHUNK = 1 << 18  # numbers in gathered rows at a time; the allocator would keep several larger blocks


def rounding(terms: int, unit: float = FLOAT32) -> float:
    """The largest error of a computed sum of products, relative to the sum of their magnitudes."""
    return 1.01 * (terms + 12) * unit


@contextmanager
def full_precision() -> Iterator[None]:
    """Compute float32 products in float32. Otherwise a device may use shorter formats, for which no bound holds."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def product(a: Tensor, b: Tensor, out: Tensor) -> Tensor:
    """a @ b.T. On the CPU numpy computes it, because its OpenBLAS was 10 % faster than torch's library (on an AMD
    processor)."""
    if a.device.type != "cpu":
        return torch.mm(a, b.T, out=out)
    with np.errstate(invalid="ignore"):  # callers check the result for values that are not finite
        np.dot(a.numpy(), b.numpy().T, out=out.numpy())
    return out


def squared_distances(a: Matrix, rows: Tensor, b: Matrix, columns: Tensor) -> Tensor:
    """|a[rows[i]] - b[columns[i]]|^2 in float64 by direct differences, a chunk of pairs at a time."""
    squared = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    for part in _chunks(len(rows), a.shape[1]):
        difference = _gathered(a, rows[part]).double()
        difference.sub_(_gathered(b, columns[part]))
        squared[part] = _sum_rows(difference.square_())
    return squared


def _gathered(features: Matrix, rows: Tensor) -> Tensor:
    if isinstance(features, Tensor):
        return features[rows]
    return torch.from_numpy(features[rows.numpy()])


def _sum_rows(values: Tensor) -> Tensor:
    """Sum each row in place by halving it. The order is the same for every pair, so equal rows have equal sums."""
    width = values.shape[1]
    while width > 1:
        half = (width + 1) // 2
        values[:, : width - half] += values[:, half:width]
        width = half
    return values[:, 0]


def _chunks(count: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK // width)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


@dataclass(frozen=True)
class Points:
    """One set of features and its centred float32 copy on the device. All sets have the same centre."""

    features: NDArray[np.floating]  # (n, d), as given
    common: np.dtype[np.floating]  # common type of all sets
    scale: float  # a power of two: the copy's norms are at most 1
    copy: Tensor  # (n, d) float32
    half: Tensor  # (n,) float32, (N - margin) / 2
    margin: Floats  # (n,), in the copy's units

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def identity(self) -> NDArray[np.uint64]:
        """(n, 2): a hash of 128 bits for each row; equal rows of all sets have equal hashes."""
        digests = []
        for row in self.features:
            content = row.astype(self.common, copy=False).tobytes()
            digests.append(hashlib.blake2b(content, digest_size=16).digest())
        return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


class Pairs(NamedTuple):
    """Pairs (row of one set, row of another) with an enclosure of their squared distance."""

    rows: Ints
    cols: Ints
    low: Floats
    high: Floats

    def where(self, mask: NDArray[np.bool_] | Ints) -> "Pairs":
        return Pairs._make(part[mask] for part in self)

    @staticmethod
    def join(parts: list["Pairs"]) -> "Pairs":
        return Pairs._make(np.concatenate(part) for part in zip(*parts, strict=True))


def as_array(features: Matrix, name: str) -> NDArray[np.floating]:
    """The features as a numpy matrix, checked."""
    if isinstance(features, Tensor):
        features = features.detach().cpu().numpy()
    array = np.asarray(features)
    if array.ndim != 2 or 0 in array.shape:
        raise UserError(f"The {name} features must be a non-empty matrix (images, features), not {array.shape}.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    for rows in _chunks(*array.shape):
        bad = ~np.isfinite(array[rows]).all(axis=1)
        if bad.any():
            first = rows.start + int(bad.argmax())
            raise UserError(f"The {name} features hold NaN or infinity (first in row {first}): extract them again.")
    return array


def prepare(arrays: list[NDArray[np.floating]], device: torch.device) -> list[Points]:
    """Centre all sets about their common mean and scale them by one power of two."""
    parts = [array[rows] for array in arrays for rows in _chunks(*array.shape)]  # views
    total = sum(part.sum(axis=0, dtype=np.float64) for part in parts)
    centre: Floats = np.asarray(total) / sum(map(len, arrays))
    norms = (np.square(part - centre).sum(axis=1) for part in parts)
    largest = max(float(of_part.max()) for of_part in norms)
    scale = 1.0
    if largest > 0:
        scale = 2.0 ** np.ceil(np.log2(largest) / 2 + 0.01)
    common = np.result_type(*arrays)
    return [_points(array, common, centre, scale, device) for array in arrays]


def _points(
    array: NDArray[np.floating],
    common: np.dtype[np.floating],
    centre: Floats,
    scale: float,
    device: torch.device,
) -> Points:
    copy = torch.empty(array.shape, dtype=torch.float32)
    norms = np.empty(len(array))
    for rows in _chunks(*array.shape):
        copy[rows] = torch.from_numpy((array[rows] - centre) / scale)
        norms[rows] = copy[rows].double().square().sum(dim=1)
    margin = rounding(array.shape[1]) * norms + _UNDERFLOW
    half = torch.from_numpy((norms - margin) / 2).float()
    return Points(array, common, scale, copy.to(device), half.to(device), margin)


def tile(a: Points, b: Points, i: slice, j: slice) -> Tensor:
    """First step: minus half the lower bound of each squared distance, in the copy's units."""
    rows = i.stop - i.start
    cols = j.stop - j.start
    values = torch.empty(rows, cols, device=a.copy.device)
    product(a.copy[i], b.copy[j], values)
    return values.sub_(a.half[i, None]).sub_(b.half[None, j])


def kth_bound(
    a: Points,
    b: Points,
    i: slice,
    j: slice,
    values: Tensor,
    k: int,
) -> Floats:
    """An upper bound of each row's k-th smallest squared distance in a tile."""
    nearest_k = values.topk(k, dim=1)
    cols = nearest_k.indices.cpu().numpy() + j.start
    margins = a.margin[i, None] + b.margin[cols]
    low = -2 * nearest_k.values.cpu().numpy().astype(np.float64)
    high = low + 2 * margins
    return np.asarray(high.max(axis=1) * a.scale**2)


def threshold(points: Points, limit: Floats) -> Tensor:
    """The value that `tile` reaches if the squared distance may be below `limit`. No distance is below zero."""
    rounded = (-limit / (2 * points.scale**2)).astype(np.float32)
    reach = np.nextafter(rounded, np.float32(-np.inf))
    reach = np.where(limit > 0, reach, np.float32(np.inf))
    return torch.from_numpy(reach).to(points.copy.device)


def select(
    a: Points,
    b: Points,
    i: slice,
    j: slice,
    values: Tensor,
    mask: Tensor,
) -> Pairs:
    """The pairs of a tile where `mask` is true, row by row, with their enclosures."""
    flat = np.flatnonzero(mask.cpu().numpy())
    selected = values.flatten()[torch.from_numpy(flat).to(values.device)]
    rows, cols = np.divmod(flat, values.shape[1])
    rows += i.start
    cols += j.start
    low = -2 * selected.cpu().numpy().astype(np.float64)
    high = low + 2 * (a.margin[rows] + b.margin[cols])
    unit = a.scale**2
    return Pairs(
        rows,
        cols,
        np.maximum(low, 0) * unit,
        np.maximum(high, 0) * unit,
    )


def refine(a: Points, b: Points, pairs: Pairs) -> Pairs:
    """Second step: pairs that share rows or columns form a cluster, which gets a float64 product about its mean."""
    rows, row = np.unique(pairs.rows, return_inverse=True)
    cols, col = np.unique(pairs.cols, return_inverse=True)
    nodes = len(rows) + len(cols)
    edges = np.ones(len(pairs.rows), bool)
    graph = coo_array((edges, (row, len(rows) + col)), shape=(nodes, nodes))
    _, label_of_node = connected_components(graph, directed=False)
    label = label_of_node[row]
    few = np.bincount(label)[label] < 16  # for so few pairs, differences are cheaper than a product
    order = np.flatnonzero(~few)[np.argsort(label[~few], kind="stable")]
    ends = np.flatnonzero(np.diff(label[order])) + 1
    parts = [exact(a, b, pairs.where(few))]
    parts += [_cluster(a, b, pairs.where(cluster)) for cluster in np.split(order, ends)]
    return Pairs.join(parts)


def _cluster(a: Points, b: Points, pairs: Pairs) -> Pairs:
    rows, row = np.unique(pairs.rows, return_inverse=True)
    cols, col = np.unique(pairs.cols, return_inverse=True)
    x = _doubled(a, rows)
    y = _doubled(b, cols)
    centre = x.mean(dim=0)
    x.sub_(centre)
    y.sub_(centre)
    norms_x = x.square().sum(dim=1).cpu().numpy()
    norms_y = y.square().sum(dim=1).cpu().numpy()
    norms = norms_x[row] + norms_y[col]
    place = torch.from_numpy(row * len(cols) + col).to(x.device)
    inner = (x @ y.T).flatten()[place]
    computed = norms - 2 * inner.cpu().numpy()
    margin = rounding(2 * x.shape[1], FLOAT64) * norms  # 2 d: here the norms are rounded as well
    low = np.maximum(computed - margin, 0)
    high = np.maximum(computed + margin, 0)
    return pairs._replace(low=low, high=high)


def _doubled(points: Points, rows: Ints) -> Tensor:
    """Rows of the features in float64, on the device."""
    features = points.features[rows].astype(np.float64)
    return torch.from_numpy(features).to(points.copy.device)


def exact(a: Points, b: Points, pairs: Pairs) -> Pairs:
    """Third step: the squared differences in float64. If there are many pairs, equal rows get 0 without computing."""
    squared = np.zeros(len(pairs.rows))
    open_ = np.arange(len(pairs.rows))
    if len(open_) > 8 * (len(a) + len(b)):
        differ = a.identity[pairs.rows] != b.identity[pairs.cols]
        open_ = np.flatnonzero(differ.any(axis=1))
    rows = torch.from_numpy(pairs.rows[open_])
    cols = torch.from_numpy(pairs.cols[open_])
    squared[open_] = squared_distances(a.features, rows, b.features, cols).numpy()
    return pairs._replace(low=squared, high=squared)


def ranked(rows: Ints, values: Floats) -> tuple[Ints, Ints]:
    """The order of pairs by row and then by value (stable), and the rank of each pair in its row."""
    order = np.lexsort((values, rows))
    ordered = rows[order]
    first = np.searchsorted(ordered, ordered)  # of each row
    return order, np.arange(len(rows)) - first


def nearest(queries: Matrix, base: Matrix, k: int) -> tuple[Floats, Ints]:
    """Distances and indices, both (queries, k), of the k nearest rows of `base`: nearest first, ties by index."""
    if not 1 <= k <= len(base):
        raise UserError(f"There are {len(base)} points, so {k} neighbours cannot be found; ask for 1 to {len(base)}.")
    device = best_device()
    parts: list[Pairs] = []
    with torch.inference_mode(), full_precision():
        a, b = prepare([as_array(queries, "query"), as_array(base, "base")], device)
        j = slice(0, len(b))
        for i in blocks(len(a), max(1, TILE[device.type] // len(b))):
            values = tile(a, b, i, j)
            reach = threshold(a, kth_bound(a, b, i, j, values, k))
            possible = select(a, b, i, j, values, values >= reach[:, None])
            pairs = exact(a, b, possible)
            order, rank = ranked(pairs.rows, pairs.low)
            parts.append(pairs.where(order[rank < k]))
    pairs = Pairs.join(parts)
    distances = np.sqrt(pairs.low).reshape(-1, k)
    return distances, pairs.cols.reshape(-1, k)


def blocks(count: int, edge: int) -> list[slice]:
    """Cut range(count) into equal slices of at most `edge`."""
    pieces = -(-count // edge)
    ends = [count * piece // pieces for piece in range(pieces + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]
