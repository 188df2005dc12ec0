"""An approximate search for RS-IMLE beyond the paper's limit: faiss's inverted files, checked in every round.

Vectors lie in cells, each in that of the nearest centre, and a search looks only into the cells whose centres are
nearest to the query. Centres are vectors drawn at random: they need no training and are the same for any number of
processes. The images have one set of cells, for rejection. The pool has its own in every round, because the samples of
a young generator are near each other and far from the images. The distances of candidates are computed in float64.
"""

import importlib
import math
from collections.abc import Iterable
from typing import Any

import faiss
import torch
from torch import Tensor

from rtm.config.experiments import Ivf
from rtm.core.distances import squared_distances
from rtm.core.randomness import permutation, seed_of
from rtm.methods.imle.neighbours import Match, first_least, gpu_resources

importlib.import_module("faiss.contrib.torch_utils")  # lets faiss take tensors
BLOCK = 2**16  # samples that are searched together
NEAREST = 4  # candidates of a search, because float32 may order the first ones wrongly


class Cells:
    """Vectors, each in the cell of its nearest centre."""

    def __init__(self, centres: Tensor, probes: int) -> None:
        count, width = centres.shape
        self._mean = centres.mean(0)  # shorter vectors have smaller rounding errors
        centred = centres - self._mean
        quantizer = faiss.IndexFlatL2(width)
        quantizer.add(centred.cpu())
        self._index: Any = faiss.IndexIVFFlat(quantizer, width, count)
        self._index.train(centred.cpu())  # nothing is left to train
        if centres.device.type == "cuda":
            self._index = faiss.index_cpu_to_gpu(gpu_resources(), centres.device.index or 0, self._index)
        self._index.nprobe = min(probes, count)
        self._vectors = centres[:0]

    def fill(self, vectors: Tensor) -> None:
        """Hold these vectors in place of those before."""
        faiss.omp_set_num_threads(torch.get_num_threads())
        self._index.reset()
        self._index.add((vectors - self._mean).contiguous())
        self._vectors = vectors

    def nearest(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """The squared distance (float64) of each query to its nearest vector, infinite if its cells are empty, and
        the number of this vector."""
        faiss.omp_set_num_threads(torch.get_num_threads())
        _, numbers = self._index.search((queries - self._mean).contiguous(), NEAREST)
        row, place = (numbers >= 0).nonzero(as_tuple=True)
        number = numbers[row, place]
        exact = squared_distances(queries, row, self._vectors, number)
        return first_least(len(queries), row, number, exact)


class Inverted:
    """What is the same in every round: the cells of the images, and which images are rare."""

    def __init__(
        self,
        data: Tensor,  # (n, d)
        search: Ivf,
        epsilon: float,
        spacing: Tensor,  # the distance of each image to its nearest other image
    ) -> None:
        self.data = data.detach().float()
        self.search = search
        self.epsilon = epsilon
        order = permutation(seed_of("centres"), len(data)).to(data.device)
        centres = self.data[order[: search.lists]]
        self._cells = Cells(centres, search.probes)
        self._cells.fill(self.data)
        tenth = math.ceil(len(data) / 10)
        self._rare = spacing.argsort(descending=True, stable=True)[:tenth]

    def checked(self, number: int) -> tuple[Tensor, Tensor]:
        """The images of a round that are compared with the exact search: some of all, and of the rarest tenth."""
        seed = seed_of("checked", number)
        images = permutation(seed, len(self.data))
        rare = self._rare[permutation(seed, len(self._rare))]
        count = self.search.checked
        return images[:count].to(self.data.device), rare[:count].to(self.data.device)

    def to_images(self, samples: Tensor) -> Tensor:
        """The squared distance of each sample to the nearest image in its cells, or of all if these are empty."""
        squared, _ = self._cells.nearest(samples)
        lost = squared.isinf().nonzero().squeeze(1)
        if len(lost):
            whole = Match(samples[lost])
            whole.update(self.data, 0)
            squared[lost] = whole.squared
        return squared

    def centres(self, chunks: Iterable[tuple[int, Tensor]]) -> tuple[Tensor, Tensor]:
        """The first samples of a pool that are not rejected, one for each cell, and their numbers. Of each chunk, the
        number of its first sample and the features are given."""
        samples = [self.data[:0]]
        numbers = [torch.empty(0, dtype=torch.int64, device=self.data.device)]
        missing = self.search.lists
        for first, chunk in chunks:
            features = chunk.detach().to(self.data)
            survivors = self.survivors(self.to_images(features))[:missing]
            samples.append(features[survivors])
            numbers.append(first + survivors)
            missing -= len(survivors)
            if not missing:
                break
        return torch.cat(samples), torch.cat(numbers)

    def survivors(self, squared: Tensor) -> Tensor:
        return (squared >= self.epsilon**2).nonzero().squeeze(1)


class InvertedMatch(Match):
    """Rejection and matching of one round, approximate: what is rejected is nearer than epsilon to an image, but not
    all such samples are found; and the match of an image may not be its nearest sample."""

    def __init__(
        self,
        inverted: Inverted,
        number: int,  # of the round
        step: int,  # every so many samples, the rejection is compared with the exact one
        centres: Tensor,  # samples that are not rejected ...
        latents: Tensor,  # ... and their numbers
    ) -> None:
        super().__init__(inverted.data, inverted.epsilon)
        self.inverted = inverted
        self._step = step
        self._images, self._rare = inverted.checked(number)
        self.exact = Match(self.data[torch.cat([self._images, self._rare])])
        self.rejections = torch.zeros(2, dtype=torch.int64, device=self.data.device)  # those found, and all
        self._cells = Cells(centres, inverted.search.probes)
        self._samples: list[Tensor] = []  # they wait for a search
        self._latents: list[Tensor] = []
        start = Match(self.data)
        start.update(centres, 0)  # so that every image has a match, even if its cells are empty
        self.squared = start.squared
        self.index = latents[start.index]

    def finish(self) -> None:
        """Search the samples that wait."""
        if not self._samples:
            return
        latents = torch.cat(self._latents)
        self._cells.fill(torch.cat(self._samples))
        self._samples.clear()
        self._latents.clear()
        squared, number = self._cells.nearest(self.data)
        rows = squared.isfinite().nonzero().squeeze(1)
        index = latents[number[rows]]
        near = squared[rows]
        is_first = (near == self.squared[rows]) & (index < self.index[rows])
        better = (near < self.squared[rows]) | is_first
        self.squared[rows[better]] = near[better]
        self.index[rows[better]] = index[better]

    def recalls(self, squared: Tensor, exact: Tensor, rejections: Tensor) -> dict[str, float]:
        """For the log: the share of images whose match is as near as the nearest sample, and of the samples too near
        to an image those that are rejected; from values over all processes."""
        is_nearest = squared[torch.cat([self._images, self._rare])] <= exact
        count = len(self._images)
        found, near = rejections.tolist()
        return {
            "search_recall": float(is_nearest[:count].float().mean()),
            "search_recall_rare": float(is_nearest[count:].float().mean()),
            "search_recall_rejected": found / near if near else 1.0,
        }

    def _take(self, pool: Tensor, first: int) -> None:
        squared = self.inverted.to_images(pool)
        self._observe(squared.float())
        self.seen += len(pool)
        self._check(pool, squared, first)
        survivors = self.inverted.survivors(squared)
        self.rejected += len(pool) - len(survivors)
        if not len(survivors):
            return
        self.exact.update(pool[survivors], 0)
        self._samples.append(pool[survivors])
        self._latents.append(first + survivors)
        if sum(map(len, self._samples)) >= BLOCK:
            self.finish()

    def _check(self, pool: Tensor, squared: Tensor, first: int) -> None:
        """Compare rejections with exact ones."""
        latents = torch.arange(first, first + len(pool), device=pool.device)
        due = latents % self._step == 0
        if not self.epsilon or not due.any():
            return
        exact = Match(self.data, self.epsilon)
        exact.update(pool[due], 0)
        self.rejections[0] += (squared[due] < self.epsilon**2).sum()
        self.rejections[1] += exact.rejected
