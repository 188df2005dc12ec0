"""A round of RS-IMLE's matching (Sec. 3.1): features of a pool, rejection near the data, the nearest survivors.

Latent j of pool r has the number r * m + j. Each process handles its share of a pool, chunk by chunk.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rtm.config.experiments import Imle
from rtm.core import distributed
from rtm.core.distances import nearest
from rtm.core.neighbours import StreamingMatch
from rtm.core.progress import track
from rtm.data.datasets import Images
from rtm.methods.imle.perceptual import Embedding


@dataclass(frozen=True)
class Round:
    nearest: Tensor  # (n): for each image the number of its nearest latent that was not rejected ...
    distances: Tensor  # (n): ... and the distance to this latent's sample
    matched: Tensor  # (n): the distance of this latent's sample to the sample's own nearest image
    prior: Tensor  # (m): for every sample of the pool, the distance to its nearest image
    rejected: float  # share of the pool


class Matching:
    def __init__(self, imle: Imle, images: Images, embedding: Embedding, device: torch.device) -> None:
        self.imle, self.images, self.embedding, self.device = imle, images, embedding, device
        self.n = len(images)
        pool = imle.pool * self.n / (imle.refresh if imle.stagger else 1)
        self.m = math.ceil(pool / imle.chunk) * imle.chunk

    def round(self, number: int, decode: Callable[[int], Tensor]) -> Round:
        """Match every image to a sample of pool `number`. decode(i) gives the images of the chunk that begins with
        latent i."""
        chunk, first, turns = self.imle.chunk, number * self.m, slice(distributed.rank(), None, distributed.world())
        starts = range(first, first + self.m, chunk)[turns]
        match = StreamingMatch(self.data_features, self.epsilon)
        for start in starts:
            match.update(self.embedding(decode(start)), start)
        observed = torch.zeros(self.m // chunk, chunk, device=self.device)
        observed[turns] = match.observed.view(len(starts), chunk)
        # exactly one process has seen each sample; the others have 0 in its place
        prior = torch.stack(distributed.gather(observed)).amax(0).flatten().cpu()
        rejected = torch.stack(distributed.gather(torch.tensor([match.rejected], device=self.device))).sum()
        found, distances = _merged(match)
        return Round(found, distances, prior[found - first], prior, int(rejected) / self.m)

    @cached_property
    def epsilon(self) -> float:
        """The rejection radius: `imle.epsilon` times the median distance of an image to its nearest other image."""
        if not self.imle.epsilon:
            return 0.0
        distances, _ = nearest(self.data_features, self.data_features, 2)
        return float(self.imle.epsilon * np.median(distances[:, 1]))

    @cached_property
    def data_features(self) -> Tensor:
        """phi of every image (n, d_phi); the processes take the chunks in turn."""
        step, turns = self.imle.chunk, distributed.world()
        starts = range(0, self.n, step)[distributed.rank() :: turns] or [0]  # without a chunk, to know d_phi
        parts = [
            self.embedding(self.images.batch(torch.arange(at, min(at + step, self.n)), self.device))
            for at in track(starts, "features of the data", len(starts))
        ]
        mine = torch.cat(parts)
        mine = F.pad(mine, (0, 0, 0, -(-self.n // (step * turns)) * step - len(mine))).unflatten(0, (-1, step))
        return torch.stack(distributed.gather(mine), 1).flatten(0, 2)[: self.n]


def _merged(match: StreamingMatch) -> tuple[Tensor, Tensor]:
    """Each image's nearest survivor over all processes. If two are equally near, the lower index wins."""
    index, squared = torch.stack(distributed.gather(match.index)), torch.stack(distributed.gather(match.squared))
    if bool((index < 0).all()):
        match.result()  # raises an error, because all processes rejected everything
    order = torch.argsort(index, dim=0)
    best = torch.gather(squared, 0, order).argmin(0, keepdim=True)
    chosen = torch.gather(order, 0, best)
    return torch.gather(index, 0, chosen)[0].cpu(), torch.gather(squared, 0, chosen)[0].sqrt().cpu()


def gap(a: Tensor, b: Tensor) -> float:
    """The Kolmogorov-Smirnov distance of two samples: the largest difference of their distribution functions."""
    values = torch.cat([a, b])
    shares = [torch.searchsorted(each.sort().values, values, right=True) / len(each) for each in (a, b)]
    return float((shares[0] - shares[1]).abs().max())
