"""Does a model copy? Precision and recall against the training set reward copies; distances to it tell them apart."""

import numpy as np
from numpy.typing import NDArray

from rtm.core.distances import nearest
from rtm.core.errors import UserError

QUANTILE = 0.01
SAME = 1e-5  # of a feature's length: what rounding in other batches makes of one image


def memorisation(
    fake: NDArray[np.float32],  # features of the samples
    train: NDArray[np.float32],  # of the training images
    held_out: NDArray[np.float32] | None = None,  # of images that were not trained on
) -> dict[str, float]:
    """Distances to the nearest training image, of samples and of images that can't be copies.

    The latter are held-out images or, without any, the training images themselves, each against the others.
    `copied` is the share of samples nearer than all but 1 % of them: about 0.01 for a model that does not copy.
    """
    of_samples = _to_nearest(fake, train, 0)
    of_others = _to_nearest(train, train, 1) if held_out is None else _to_nearest(held_out, train, 0)
    bound = np.quantile(of_others, QUANTILE)
    if bound <= SAME * np.linalg.norm(train, axis=1).mean():
        wrong = "Training images are there twice" if held_out is None else "Held-out images are in the training set"
        raise UserError(f"{wrong}, so they cannot tell a copy; give --held-out images that were not trained on.")
    return {
        "nearest_sample": float(np.median(of_samples)),
        "nearest_other": float(np.median(of_others)),
        "copied": float((of_samples < bound).mean()),
    }


def _to_nearest(queries: NDArray[np.float32], base: NDArray[np.float32], rank: int) -> NDArray[np.float64]:
    return nearest(queries, base, rank + 1)[0][:, rank]
