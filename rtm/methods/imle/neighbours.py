"""The search of RS-IMLE: each data point gets its nearest pool sample, among those at least epsilon from all data.

One round has n fixed data features and m >> n pool features that arrive chunk by chunk. faiss computes the squared
distances of a tile in float32; one tile serves both directions, rejection of samples and matching of data points. What
their rounding leaves open is decided in float64. No n x m matrix ever exists.
"""

import importlib
import math
from functools import cache
from typing import Any

import faiss
import torch
from torch import Tensor

from rtm.core.distances import FLOAT64, TILE, full_precision, rounding, squared_distances
from rtm.core.errors import UserError

FEW = 16  # samples of a row up to which differences are cheaper than a float64 product


class Match:
    """Rejection and matching of one RS-IMLE round, exact: `update` with every chunk of the pool, then `result`.

    A pool sample nearer than epsilon to any data point is rejected; every data point takes its nearest survivor, the
    first of equally near ones.
    """

    def __init__(self, data: Tensor, epsilon: float = 0.0) -> None:
        """`data` is (n, d); an epsilon of 0 is plain IMLE."""
        n = len(data)
        device = data.device
        self.data = data.detach().float()
        self.epsilon = epsilon
        self.index = torch.full((n,), -1, device=device)  # index of the nearest survivor; -1: none yet
        self.squared = torch.full((n,), math.inf, dtype=torch.float64, device=device)
        self.seen = 0
        self.rejected = 0
        self._observed: list[Tensor] = []
        self._mean = self.data.mean(0)
        self._centred = self.data - self._mean  # shorter vectors have smaller rounding errors
        self._longest = _longest(self._centred)
        self._columns = max(256, TILE[device.type] // n)

    @torch.no_grad()
    def update(self, chunk: Tensor, first_index: int) -> None:
        """Add the pool samples first_index, first_index + 1, ... by their features (c, d)."""
        with full_precision():
            for start in range(0, len(chunk), self._columns):
                pool = chunk[start : start + self._columns].detach().to(self.data)
                self._take(pool, first_index + start)

    def finish(self) -> None:
        """After the last chunk of this process."""

    @property
    def observed(self) -> Tensor:
        """The distance of each pool sample so far, rejected or not, to its nearest data point."""
        return torch.cat([self.data.new_empty(0), *self._observed])

    def result(self) -> tuple[Tensor, Tensor]:
        """For each data point the index of its nearest surviving pool sample, and the distance (float64)."""
        if self.rejected == self.seen:
            smallest, largest = (float(extreme) for extreme in self.observed.aminmax())
            raise UserError(
                f"All {self.seen} pool samples were rejected: their distances to the nearest training image are "
                f"{smallest:.4g} to {largest:.4g} and epsilon is {self.epsilon:.4g}; set epsilon below {largest:.4g}."
            )
        return self.index, self.squared.sqrt()

    def _take(self, pool: Tensor, first: int) -> None:
        centred = pool - self._mean
        squared = pairwise(self._centred, centred)
        # twice the bound of the product, because faiss adds the rounded norms to it
        tolerance = 2 * rounding(pool.shape[1] + 2) * (self._longest + _longest(centred)) ** 2
        nearest = squared.amin(0)
        self._observe(nearest)
        self.seen += len(pool)
        if self.epsilon > 0:
            rejected = self._rejected(pool, squared, nearest, tolerance)
            self.rejected += len(rejected)
            squared.index_fill_(1, rejected, math.inf)
        least = squared.amin(1)
        rows = (least - tolerance < self.squared).nonzero().squeeze(1)  # these become fewer during a round
        row, column = self._candidates(rows, pool, squared, least, tolerance)
        exact = squared_distances(self.data, rows[row], pool, column)
        best, columns = first_least(len(rows), row, column, exact)
        better = best < self.squared[rows]
        self.squared[rows[better]] = best[better]
        self.index[rows[better]] = first + columns[better]

    def _candidates(
        self, rows: Tensor, pool: Tensor, squared: Tensor, least: Tensor, tolerance: float
    ) -> tuple[Tensor, Tensor]:
        """All pairs (place in `rows`, sample) that may be the nearest. Rows with many get a float64 product first."""
        limit = (least[rows] + 2 * tolerance).clamp(max=torch.finfo(torch.float32).max)  # rejected ones are infinite
        may = squared[rows] <= limit[:, None]
        crowded = (may.sum(1) > FEW).nonzero().squeeze(1)
        if len(crowded):
            may[crowded] &= self._nearly_least(rows[crowded], pool, may[crowded])
        row, column = may.nonzero(as_tuple=True)
        return row, column

    def _nearly_least(self, rows: Tensor, pool: Tensor, may: Tensor) -> Tensor:
        """Which samples may be the nearest by products in float64."""
        mean = self._mean.double()
        data = self.data[rows].double() - mean
        samples = pool.double() - mean
        squared = torch.cdist(data, samples, compute_mode="use_mm_for_euclid_dist").square_()
        squared.masked_fill_(~may, math.inf)
        tolerance = 2 * rounding(2 * data.shape[1], FLOAT64) * (_longest(data) + _longest(samples)) ** 2
        return squared <= squared.amin(1, keepdim=True) + 2 * tolerance

    def _rejected(self, pool: Tensor, squared: Tensor, nearest: Tensor, tolerance: float) -> Tensor:
        """The columns that are nearer than epsilon to a data point. If rounding makes it uncertain, float64 decides."""
        radius = self.epsilon**2
        certain = nearest < radius - tolerance
        doubtful = (~certain & (nearest <= radius + tolerance)).nonzero().squeeze(1)
        rows, which = (squared[:, doubtful] <= radius + tolerance).nonzero(as_tuple=True)
        exact = squared_distances(self.data, rows, pool, doubtful[which])
        certain[doubtful[which[exact < radius]]] = True
        return certain.nonzero().squeeze(1)

    def _observe(self, squared: Tensor) -> None:
        """Store the distances of pool samples to the data."""
        if not bool(squared.isfinite().all()):
            raise UserError(
                "The pool has features that are not finite: the generator diverged; lower its learning rate."
            )
        self._observed.append(squared.clamp(min=0).sqrt())


def pairwise(a: Tensor, b: Tensor) -> Tensor:
    """|a_i - b_j|^2 (a, b) in float32, by faiss on the device of the tensors."""
    if a.device.type == "cuda":
        resources = gpu_resources()  # first, because it makes faiss take tensors
        squared: Tensor = faiss.pairwise_distance_gpu(resources, a.contiguous(), b.contiguous())
        return squared
    faiss.omp_set_num_threads(torch.get_num_threads())
    return torch.from_numpy(faiss.pairwise_distances(a.numpy(), b.numpy()))


@cache
def gpu_resources() -> Any:
    importlib.import_module("faiss.contrib.torch_utils")  # lets faiss take tensors of the GPU
    return faiss.StandardGpuResources()


def _longest(vectors: Tensor) -> float:
    return float(vectors.square().sum(1).max().sqrt())


def first_least(count: int, row: Tensor, column: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """For each of `count` rows the least value, and the first column that has it."""
    least = torch.full((count,), math.inf, dtype=values.dtype, device=values.device)
    least.scatter_reduce_(0, row, values, "amin")
    is_least = values == least[row]
    columns = torch.full((count,), torch.iinfo(torch.int64).max, device=values.device)
    columns.scatter_reduce_(0, row[is_least], column[is_least], "amin")
    return least, columns
