"""Matching of RS-IMLE: each data point gets its nearest pool sample, among those at least epsilon from all data.

One round has n fixed data features and m >> n pool features that arrive chunk by chunk. `StreamingMatch` keeps the best
surviving pool index of every data point in O(n * d + chunk) memory; no n x m matrix ever exists.
"""

import math
from typing import Any

import torch
from torch import Tensor

from rtm.core.distances import TILE, full_precision, product, rounding, squared_distances
from rtm.core.errors import UserError


class StreamingMatch:
    """Rejection and matching of one RS-IMLE round, exact: `update` with every chunk of the pool, then `result`.

    A pool sample nearer than epsilon to any data point is rejected; every data point takes its nearest survivor.
    Distances are float32 products. Where their rounding could change a rejection or a comparison with an earlier
    chunk, float64 differences decide. If several samples of one chunk are nearest up to that rounding, any of them is
    taken; a sample of a later chunk must be strictly nearer. Products are fast for chunks of a few hundred and more.
    """

    def __init__(self, data: Tensor, epsilon: float | Tensor = 0.0) -> None:
        """`data` is (n, d); `epsilon` is one radius, or one for each data point; 0 is plain IMLE."""
        n, device = len(data), data.device
        self.data = data.detach().float()
        self.squared_radii = torch.as_tensor(epsilon, dtype=torch.float64, device=device).square().expand(n)
        self.index = torch.full((n,), -1, device=device)  # of the nearest survivor, -1 while there is none
        self.squared = torch.full((n,), math.inf, dtype=torch.float64, device=device)
        self.seen, self.rejected = 0, 0
        self._observed: list[Tensor] = []
        self._rejects = bool(self.squared_radii.any())
        self._mean = self.data.mean(0)
        centred = self.data - self._mean  # shorter vectors round less
        norms = centred.square().sum(1, keepdim=True)
        self._longest = float(norms.max().sqrt())
        shift = self.squared_radii[:, None].float()
        self._shift = shift if bool((shift != shift[0]).any()) else shift[0, 0]
        self._left = torch.cat([-2 * centred, norms - shift, torch.ones_like(norms)], 1)  # (n, d + 2)
        self._columns = max(256, TILE[device.type] // n)
        self._buffer = torch.empty(0, device=device)

    @torch.no_grad()
    def update(self, chunk: Tensor, first_index: int) -> None:
        """Add the pool samples first_index, first_index + 1, ... by their features (c, d)."""
        with full_precision():
            for start in range(0, len(chunk), self._columns):
                pool = chunk[start : start + self._columns].detach().to(self.data)
                self._take(pool, torch.arange(len(pool), device=pool.device) + first_index + start)

    @property
    def observed(self) -> Tensor:
        """Distance of each pool sample so far, rejected or not, to the data point nearest to it."""
        return torch.cat([self.data.new_empty(0), *self._observed])

    def result(self) -> tuple[Tensor, Tensor]:
        """For each data point the index of its nearest surviving pool sample, and the distance (float64)."""
        if self.rejected == self.seen:
            smallest, largest = (float(extreme) for extreme in self.observed.aminmax())
            raise UserError(
                f"All {self.seen} pool samples were rejected: their distances to the nearest training image are "
                f"{smallest:.4g} to {largest:.4g} and epsilon is "
                f"{float(self.squared_radii.max().sqrt()):.4g}; set epsilon below {largest:.4g}."
            )
        return self.index, self.squared.sqrt()

    def _take(self, pool: Tensor, indices: Tensor) -> Tensor:
        rejected, rows, columns = self._candidates(pool)
        self.seen += len(pool)
        self.rejected += int(rejected.sum())
        squared = squared_distances(self.data, rows, pool, columns)
        better = squared < self.squared[rows]
        self.squared[rows[better]] = squared[better]
        self.index[rows[better]] = indices[columns[better]]
        return rejected

    def _candidates(self, pool: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The rejected pool samples, and the pairs (data row, pool column) that may beat the nearest so far."""
        gaps, tolerance = self._gaps(pool)
        lowest = gaps.amin(0)
        self._observe((gaps + self._shift).amin(0) if self._shift.numel() > 1 else lowest + self._shift)
        rejected = torch.zeros(len(pool), dtype=torch.bool, device=pool.device)
        if self._rejects:
            rejected = lowest < -tolerance
            doubtful = (lowest.abs() <= tolerance).nonzero().squeeze(1)
            rows, which = (gaps[:, doubtful] <= tolerance).nonzero(as_tuple=True)
            rejected[self._too_near(pool, rows, doubtful[which])] = True
            gaps.index_fill_(1, rejected.nonzero().squeeze(1), math.inf)
        possible = gaps.amin(1) - tolerance < self.squared - self.squared_radii
        rows = possible.nonzero().squeeze(1)  # fewer and fewer in the course of a round
        return rejected, rows, gaps[rows].argmin(1)

    def _gaps(self, pool: Tensor) -> tuple[Tensor, float]:
        """|x_i - y_j|^2 - epsilon_i^2 (n, c) by one product, and the largest possible rounding error."""
        centred = pool - self._mean
        norms = centred.square().sum(1, keepdim=True)
        right = torch.cat([centred, torch.ones_like(norms), norms], 1)
        size = len(self.data) * len(pool)
        if self._buffer.numel() < size:
            self._buffer = torch.empty(size, device=pool.device)
        gaps = self._buffer[:size].view(len(self.data), len(pool))
        magnitude = (self._longest + float(norms.max().sqrt())) ** 2 + float(self._shift.max())
        # twice, because the norms in the last two columns are rounded sums too
        return product(self._left, right, gaps), 2 * rounding(right.shape[1]) * magnitude

    def _too_near(self, pool: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        return columns[squared_distances(self.data, rows, pool, columns) < self.squared_radii[rows]]

    def _observe(self, squared: Tensor) -> None:
        """Store the distances of pool samples to the data."""
        if not bool(squared.isfinite().all()):
            raise UserError(
                "The pool has features that are not finite: the generator diverged; lower its learning rate."
            )
        self._observed.append(squared.clamp(min=0).sqrt())


class ApproximateMatch(StreamingMatch):
    """Approximate matching with an inverted-file index, for datasets whose exact round takes too long.

    The data never change but every round has a new pool. So the index holds the data (`inverted_file` builds it once)
    and the pool samples are the queries. A sample is compared only with the data points that its query finds. The
    search is exact until every data point has a match. `recall` is the share of `checked` data points whose match is
    the exact one among the same survivors.
    """

    def __init__(
        self,
        data: Tensor,
        index: Any,  # of the data, from inverted_file
        epsilon: float | Tensor = 0.0,
        probes: int = 8,  # lists of the index that are searched
        neighbours: int = 64,  # data points that a query finds
        checked: int = 256,
    ) -> None:
        super().__init__(data, epsilon)
        self._index, self._neighbours = index, min(neighbours, len(data))
        self._index.nprobe = probes
        self._rows = torch.linspace(0, len(data) - 1, min(checked, len(data)), device=data.device).long()
        self._check = StreamingMatch(self.data[self._rows])

    @property
    def recall(self) -> float:
        return float((self.index[self._rows] == self._check.index).double().mean())

    def _take(self, pool: Tensor, indices: Tensor) -> Tensor:
        rejected = super()._take(pool, indices)
        if not rejected.all():
            self._check._take(pool[~rejected], indices[~rejected])
        return rejected

    def _candidates(self, pool: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if bool((self.index < 0).any()):
            return super()._candidates(pool)
        found = self._index.search(pool.cpu().numpy(), self._neighbours)
        squared, rows = (torch.from_numpy(x).to(pool.device) for x in found)  # (c, neighbours), row -1 for none
        squared = squared.masked_fill(rows < 0, math.inf)
        rows = rows.clamp(min=0)
        reached = squared[:, 0].isfinite()  # a query whose cells are all empty finds no data point
        if reached.any():
            self._observe(squared[reached, 0])
        columns = torch.arange(len(pool), device=pool.device)[:, None].expand_as(rows)
        near = squared <= 1.001 * self.squared_radii[rows] + 1e-6  # in float32; float64 decides
        rejected = torch.zeros(len(pool), dtype=torch.bool, device=pool.device)
        rejected[self._too_near(pool, rows[near], columns[near])] = True
        squared[rejected] = math.inf
        best = torch.full((len(self.data),), math.inf, device=pool.device)
        best.scatter_reduce_(0, rows.flatten(), squared.flatten(), "amin")
        hit = (squared == best[rows]) & (0.999 * squared - 1e-6 < self.squared[rows]) & squared.isfinite()
        first = torch.full_like(self.index, len(pool)).scatter_reduce_(0, rows[hit], columns[hit], "amin")
        matched = (first < len(pool)).nonzero().squeeze(1)
        return rejected, matched, first[matched]


def inverted_file(data: Tensor, lists: int | None = None) -> Any:
    """A faiss index of the data in `lists` cells, by default about 4 sqrt(n); on the GPU if there is one."""
    import faiss

    lists = lists or max(1, min(len(data) // 39, int(4 * math.sqrt(len(data)))))  # faiss wants 39 points a cell
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(data.shape[1]), data.shape[1], lists)
    vectors = data.detach().float().cpu().numpy()
    index.train(vectors)
    index.add(vectors)
    if faiss.get_num_gpus() == 0:
        return index
    return faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), torch.cuda.current_device(), index)
