"""Inception score (Salimans et al. 2016): exp of the mean KL(p(y|x) || p(y)), per split, in float64."""

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
    scores, _ = _split_scores(logits, splits, shuffle_seed)
    return float(np.mean(scores)), float(np.std(scores))


def inception_score_error(logits: Matrix, splits: int = 10, shuffle_seed: int | None = 2020) -> float:
    """The standard error of the mean. One image moves the logarithm of its split's score by the image's divergence."""
    _, errors = _split_scores(logits, splits, shuffle_seed)
    return float(np.sqrt(np.square(errors).sum()) / splits)


def _split_scores(logits: Matrix, splits: int, shuffle_seed: int | None) -> tuple[list[float], list[float]]:
    """The score of each split, and its standard error."""
    array = as_array(logits, "logits")
    count = len(array)
    if not 1 <= splits <= count:
        raise UserError(f"An inception score in {splits} splits needs at least {max(splits, 1)} images, not {count}.")
    order = np.arange(count)
    if shuffle_seed is not None:
        order = np.random.RandomState(shuffle_seed).permutation(count)
    scores = []
    errors = []
    for split in range(splits):
        rows = order[count * split // splits : count * (split + 1) // splits]
        score, error = _score(torch.from_numpy(array[rows]))
        scores.append(score)
        errors.append(error)
    return scores, errors


def _score(logits: torch.Tensor) -> tuple[float, float]:
    log_p = logits.double().log_softmax(dim=1)
    p = log_p.exp()
    divergence = (p * (log_p - p.mean(dim=0).log())).sum(dim=1)
    score = float(divergence.mean().exp())
    spread = float(divergence.std(correction=0))
    return score, score * spread / max(len(logits), 1) ** 0.5
