"""Inception score (Salimans et al. 2016): exp of the mean KL(p(y|x) || p(y)), per split, in float64."""

from itertools import pairwise

import numpy as np
import torch

from rtm.core.distances import Matrix, as_array
from rtm.core.errors import UserError


def inception_score(
    logits: Matrix,  # (images, classes)
    splits: int = 10,
    shuffle_seed: int | None = 2020,  # torch-fidelity's; None keeps the order
) -> tuple[float, float]:
    """Mean and standard deviation over the splits."""
    array = as_array(logits, "logits")
    count = len(array)
    if not 1 <= splits <= count:
        raise UserError(f"An inception score in {splits} splits needs at least {max(splits, 1)} images, not {count}.")
    order = np.arange(count) if shuffle_seed is None else np.random.RandomState(shuffle_seed).permutation(count)
    ends = [count * split // splits for split in range(splits + 1)]
    scores = [_score(torch.from_numpy(array[order[a:b]])) for a, b in pairwise(ends)]
    return float(np.mean(scores)), float(np.std(scores))


def _score(logits: torch.Tensor) -> float:
    log_p = logits.double().log_softmax(dim=1)
    p = log_p.exp()
    divergence = (p * (log_p - p.mean(dim=0).log())).sum(dim=1)
    return float(divergence.mean().exp())
