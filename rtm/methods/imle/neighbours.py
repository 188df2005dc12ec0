"""Matching of RS-IMLE: each data point gets its nearest pool sample, among those at least epsilon from all data.

One round has n fixed data features and m >> n pool features that arrive chunk by chunk. `StreamingMatch` keeps the best
surviving pool index of every data point in O(n * d + chunk) memory; no n x m matrix ever exists.
"""

import math

import torch
from torch import Tensor

from rtm.core.distances import TILE, full_precision, product, rounding, squared_distances
from rtm.core.errors import UserError


class StreamingMatch:
    """Rejection and matching of one RS-IMLE round, exact: `update` with every chunk of the pool, then `result`.

    A pool sample nearer than epsilon to any data point is rejected; every data point takes its nearest survivor.
    Distances are float32 products. If their rounding could change a rejection or a comparison with an earlier chunk,
    float64 differences decide. If several samples of one chunk are nearest up to this rounding, any of them is taken; a
    sample of a later chunk must be strictly nearer. Products are fast for chunks of at least a few hundred samples.
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
        centred = self.data - self._mean  # centred, because shorter vectors have smaller rounding errors
        norms = centred.square().sum(1, keepdim=True)
        self._longest = float(norms.max().sqrt())
        ones = torch.ones_like(norms)
        self._left = torch.cat([-2 * centred, norms, ones], 1)  # (n, d + 2)
        self._columns = max(256, TILE[device.type] // n)
        self._buffer = torch.empty(0, device=device)

    @torch.no_grad()
    def update(self, chunk: Tensor, first_index: int) -> None:
        """Add the pool samples first_index, first_index + 1, ... by their features (c, d)."""
        with full_precision():
            for start in range(0, len(chunk), self._columns):
                end = start + self._columns
                pool = chunk[start:end].detach().to(self.data)
                places = torch.arange(len(pool), device=pool.device)
                self._take(pool, places + first_index + start)

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

    def _take(self, pool: Tensor, indices: Tensor) -> None:
        squared, tolerance = self._products(pool)
        nearest = squared.amin(0)
        self._observe(nearest)
        self.seen += len(pool)
        if self.epsilon > 0:
            rejected = self._rejected(pool, squared, nearest, tolerance)
            self.rejected += len(rejected)
            squared.index_fill_(1, rejected, math.inf)
        possible = squared.amin(1) - tolerance < self.squared  # these become fewer during a round
        rows = possible.nonzero().squeeze(1)
        columns = squared[rows].argmin(1)
        exact = squared_distances(self.data, rows, pool, columns)
        better = exact < self.squared[rows]
        self.squared[rows[better]] = exact[better]
        self.index[rows[better]] = indices[columns[better]]

    def _products(self, pool: Tensor) -> tuple[Tensor, float]:
        """|x_i - y_j|^2 (n, c) by one product, and the largest possible rounding error."""
        centred = pool - self._mean
        norms = centred.square().sum(1, keepdim=True)
        ones = torch.ones_like(norms)
        right = torch.cat([centred, ones, norms], 1)
        shape = (len(self.data), len(pool))
        size = math.prod(shape)
        if self._buffer.numel() < size:
            self._buffer = torch.empty(size, device=pool.device)
        squared = self._buffer[:size].view(shape)
        longest = float(norms.max().sqrt())
        magnitude = (self._longest + longest) ** 2
        # twice the bound, because the norms in the last two columns are rounded sums, too
        tolerance = 2 * rounding(right.shape[1]) * magnitude
        return product(self._left, right, squared), tolerance

    def _rejected(self, pool: Tensor, squared: Tensor, nearest: Tensor, tolerance: float) -> Tensor:
        """The columns that are nearer than epsilon to a data point. If rounding makes it uncertain, float64 decides."""
        radius = self.epsilon**2
        certain = nearest < radius - tolerance
        most = radius + tolerance
        uncertain = ~certain & (nearest <= most)
        doubtful = uncertain.nonzero().squeeze(1)
        rows, which = (squared[:, doubtful] <= most).nonzero(as_tuple=True)
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
