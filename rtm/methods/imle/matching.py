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
from rtm.core.distances import Floats, nearest
from rtm.core.errors import UserError
from rtm.core.progress import track
from rtm.data.datasets import Images
from rtm.methods.imle.inverted import Inverted, InvertedMatch
from rtm.methods.imle.neighbours import Match
from rtm.methods.imle.perceptual import Embedding


@dataclass(frozen=True)
class Round:
    nearest: Tensor  # (n): for each image the number of its nearest latent that was not rejected ...
    distances: Tensor  # (n): ... and the distance to this latent's sample
    matched: Tensor  # (n): the distance of this latent's sample to the sample's own nearest image
    prior: Tensor  # (m): for every sample of the pool, the distance to its nearest image
    rejected: float  # share of the pool
    recalls: dict[str, float]  # of an approximate search, by their names in the log


class Matching:
    def __init__(
        self,
        imle: Imle,
        images: Images,  # n
        embedding: Embedding,  # phi
        device: torch.device,
    ) -> None:
        self.imle = imle
        self.images = images
        self.embedding = embedding
        self.device = device
        self.n = len(images)
        rounds = imle.refresh if imle.stagger else 1  # in which every image is matched once
        latents = imle.pool * self.n / rounds
        chunks = math.ceil(latents / imle.chunk)
        self.m = chunks * imle.chunk  # latents of a pool

    def round(self, number: int, decode: Callable[[int], Tensor]) -> Round:
        """Match every image to a sample of pool `number`. decode(i) gives the images of the chunk that begins with
        latent i."""
        chunk = self.imle.chunk
        first = number * self.m
        turns = slice(distributed.rank(), None, distributed.world())  # the chunks of this process
        starts = range(first, first + self.m, chunk)[turns]
        match = self._match(number, decode)
        for start in starts:
            match.update(self.embedding(decode(start)), start)
        match.finish()
        observed = torch.zeros(self.m // chunk, chunk, device=self.device)
        observed[turns] = match.observed.view(len(starts), chunk)
        # exactly one process has seen each sample; the others have 0 in its place
        of_all = torch.stack(distributed.gather(observed))
        prior = of_all.amax(0).flatten().cpu()
        rejected = torch.tensor([match.rejected], device=self.device)
        rejected = torch.stack(distributed.gather(rejected)).sum()
        latents, distances = _merged(match)
        recalls = self._recalls(match) if isinstance(match, InvertedMatch) else {}
        matched = prior[latents - first]
        return Round(latents, distances, matched, prior, int(rejected) / self.m, recalls)

    def _match(self, number: int, decode: Callable[[int], Tensor]) -> Match:
        """The search of round `number`."""
        if self.inverted is None:
            return Match(self.data_features, self.epsilon)
        first = number * self.m
        starts = range(first, first + self.m, self.imle.chunk)
        chunks = ((start, self.embedding(decode(start))) for start in starts)
        centres, latents = self.inverted.centres(chunks)
        if not len(centres):
            return Match(self.data_features, self.epsilon)  # says that everything is rejected
        step = max(1, self.m // self.inverted.search.checked)
        return InvertedMatch(self.inverted, number, step, centres, latents)

    def _recalls(self, match: InvertedMatch) -> dict[str, float]:
        """The recalls of a round over all processes, for the log; an error if they are too low."""
        squared = torch.stack(distributed.gather(match.squared)).amin(0)
        exact = torch.stack(distributed.gather(match.exact.squared)).amin(0)
        rejections = torch.stack(distributed.gather(match.rejections)).sum(0)
        recalls = match.recalls(squared, exact, rejections)
        least = match.inverted.search.least
        for name in ("search_recall", "search_recall_rare"):
            if recalls[name] < least:
                raise UserError(
                    f"{name} is {recalls[name]:.3f}, below imle.search.least: {least:g}, because the approximate "
                    "search misses too many nearest samples; raise probes, or set search: null."
                )
        return recalls

    @cached_property
    def epsilon(self) -> float:
        """The rejection radius: `imle.epsilon` times the median distance of an image to its nearest other image."""
        if not self.imle.epsilon:
            return 0.0
        return float(self.imle.epsilon * np.median(self.spacing))

    @cached_property
    def spacing(self) -> Floats:
        """The distance of each image to its nearest other image (n)."""
        distances, _ = nearest(self.data_features, self.data_features, 2)
        return distances[:, 1]

    @cached_property
    def inverted(self) -> Inverted | None:
        """The cells of an approximate search; None if the search is exact."""
        if not self.imle.search:
            return None
        return Inverted(self.data_features, self.imle.search, self.epsilon, torch.from_numpy(self.spacing))

    @cached_property
    def data_features(self) -> Tensor:
        """phi of every image (n, d_phi); the processes take the chunks in turn."""
        chunk = self.imle.chunk
        world = distributed.world()
        turns = slice(distributed.rank(), None, world)
        starts = range(0, self.n, chunk)[turns] or [0]  # without a chunk, to know d_phi
        parts = []
        for start in track(starts, "features of the data", len(starts)):
            index = torch.arange(start, min(start + chunk, self.n))
            parts.append(self.embedding(self.images.batch(index, self.device)))
        mine = torch.cat(parts)
        share = -(-self.n // (chunk * world)) * chunk  # of each process, as whole chunks
        missing = share - len(mine)
        mine = F.pad(mine, (0, 0, 0, missing))
        chunks = distributed.gather(mine.unflatten(0, (-1, chunk)))
        return torch.stack(chunks, 1).flatten(0, 2)[: self.n]


def _merged(match: Match) -> tuple[Tensor, Tensor]:
    """Each image's nearest survivor over all processes. If two are equally near, the lower index wins."""
    index = torch.stack(distributed.gather(match.index))  # (processes, n)
    squared = torch.stack(distributed.gather(match.squared))
    if bool((index < 0).all()):
        match.result()  # raises an error, because all processes rejected everything
    order = torch.argsort(index, dim=0)
    best = torch.gather(squared, 0, order).argmin(0, keepdim=True)
    process = torch.gather(order, 0, best)
    latents = torch.gather(index, 0, process)[0]
    distances = torch.gather(squared, 0, process)[0].sqrt()
    return latents.cpu(), distances.cpu()


def gap(a: Tensor, b: Tensor) -> float:
    """The Kolmogorov-Smirnov distance of two samples: the largest difference of their distribution functions."""
    values = torch.cat([a, b])
    difference = _shares_below(a, values) - _shares_below(b, values)
    return float(difference.abs().max())


def _shares_below(sample: Tensor, values: Tensor) -> Tensor:
    """The empirical distribution function of a sample."""
    below = torch.searchsorted(sample.sort().values, values, right=True)
    return below / len(sample)
