"""A round of RS-IMLE's matching (Sec. 3.1): features of a pool, rejection near the data, the nearest survivors.

Latent j of pool r has the number r * m + j. Each process looks at its share of a pool, chunk by chunk.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rtm.config.experiments import Calibrated, Imle
from rtm.core import distributed
from rtm.core.neighbours import ApproximateMatch, StreamingMatch, inverted_file
from rtm.core.progress import track
from rtm.data.datasets import Images
from rtm.methods.imle.perceptual import Embedding


@dataclass(frozen=True)
class Round:
    nearest: Tensor  # (n): for each image the number of its nearest latent that was not rejected ...
    distances: Tensor  # (n): ... and how far it is
    epsilon: float
    rejected: float  # share of the pool
    recall: float | None  # of an approximate search


class Matching:
    def __init__(self, imle: Imle, images: Images, embedding: Embedding, device: torch.device) -> None:
        self.imle, self.images, self.embedding, self.device = imle, images, embedding, device
        self.n = len(images)
        self.m = math.ceil(imle.pool * self.n / imle.chunk) * imle.chunk

    def round(self, number: int, decode: Callable[[int], Tensor]) -> Round:
        """Match every image to pool `number`; decode(i) gives the images of the chunk that begins with latent i."""
        chunks = range(distributed.rank(), self.m // self.imle.chunk, distributed.world())
        starts = [number * self.m + chunk * self.imle.chunk for chunk in chunks]
        pool: Iterable[Tensor] = (self.embedding(decode(first)) for first in starts)
        epsilon = self.imle.epsilon
        if isinstance(epsilon, Calibrated):
            pool = list(pool)  # used twice
            epsilon = self._radius(starts, pool, epsilon.rejected)
        match = self._matched(starts, pool, epsilon)
        nearest, distances = _merged(match)
        rejected = distributed.mean(torch.tensor(float(match.rejected), device=self.device))
        share = distributed.world() * float(rejected) / self.m
        recall = match.recall if isinstance(match, ApproximateMatch) else None
        return Round(nearest, distances, epsilon, share, recall)

    def _matched(self, starts: list[int], pool: Iterable[Tensor], epsilon: float) -> StreamingMatch:
        """The pool's chunks, which begin at `starts`, against the data."""
        if self.imle.probes is None:
            match = StreamingMatch(self.data_features, epsilon)
        else:
            match = ApproximateMatch(self.data_features, self.data_index, epsilon, self.imle.probes)
        for first, chunk in zip(starts, pool, strict=True):
            match.update(chunk, first)
        return match

    def _radius(self, starts: list[int], pool: list[Tensor], rejected: float) -> float:
        """The radius within which this share of all processes' pools has a training image."""
        mine = self._matched(starts, pool, 0.0).observed
        padded = F.pad(mine, (0, self.m - len(mine)), value=math.nan)  # processes may have unequal shares
        return float(torch.cat(distributed.gather(padded)).double().nanquantile(rejected))

    @cached_property
    def data_features(self) -> Tensor:
        """phi of every image (n, d_phi); the processes take the chunks in turn."""
        step, turns = self.imle.chunk, distributed.world()
        starts = range(0, self.n, step)[distributed.rank() :: turns] or [0]  # one without a chunk learns d_phi
        parts = [
            self.embedding(self.images.batch(torch.arange(at, min(at + step, self.n)), self.device))
            for at in track(starts, "features of the data", len(starts))
        ]
        mine = torch.cat(parts)
        mine = F.pad(mine, (0, 0, 0, -(-self.n // (step * turns)) * step - len(mine))).unflatten(0, (-1, step))
        return torch.stack(distributed.gather(mine), 1).flatten(0, 2)[: self.n]

    @cached_property
    def data_index(self) -> Any:
        return inverted_file(self.data_features)


def _merged(match: StreamingMatch) -> tuple[Tensor, Tensor]:
    """Each image's nearest survivor over all processes; the lower index where two are equally near."""
    index, squared = torch.stack(distributed.gather(match.index)), torch.stack(distributed.gather(match.squared))
    if bool((index < 0).all()):
        match.result()  # raises: everything was rejected, in all processes
    order = torch.argsort(index, dim=0)
    best = torch.gather(squared, 0, order).argmin(0, keepdim=True)
    chosen = torch.gather(order, 0, best)
    return torch.gather(index, 0, chosen)[0].cpu(), torch.gather(squared, 0, chosen)[0].sqrt().cpu()
