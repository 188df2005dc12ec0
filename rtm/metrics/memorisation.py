"""Does a model copy? Precision and recall reward copies of training images; distances to the training set show them."""

import numpy as np
from numpy.typing import NDArray

from rtm.core.distances import Floats, nearest
from rtm.core.errors import UserError

QUANTILE = 0.01
SAME = 1e-5  # of a feature's length: by how much rounding in other batches moves an image


def distances_of_others(
    train: NDArray[np.float32],  # features of the training images
    held_out: NDArray[np.float32] | None = None,  # of images that were not trained on
) -> Floats:
    """Distances to the nearest training image of images that can't be copies, in any order.

    These are held-out images or, without any, the training images themselves, each against the others.
    """
    found = _to_nearest(train, train, 1) if held_out is None else _to_nearest(held_out, train, 0)
    if np.quantile(found, QUANTILE) <= SAME * np.linalg.norm(train, axis=1).mean():
        wrong = "Training images are there twice" if held_out is None else "Held-out images are in the training set"
        raise UserError(f"{wrong}, so they cannot show what a copy is; give --held-out images not trained on.")
    return found


def memorisation(
    fake: NDArray[np.float32],  # features of the samples
    train: NDArray[np.float32],  # of the training images
    of_others: Floats,  # what `distances_of_others` returned
) -> dict[str, float]:
    """How near the samples are to the training images, compared with images that can't be copies.

    `copied` is the share of samples nearer than all but 1 % of those: about 0.01 for a model that does not copy.
    """
    of_samples = _to_nearest(fake, train, 0)
    return {
        "nearest_sample": float(np.median(of_samples)),
        "nearest_other": float(np.median(of_others)),
        "copied": float((of_samples < np.quantile(of_others, QUANTILE)).mean()),
    }


def _to_nearest(queries: NDArray[np.float32], base: NDArray[np.float32], rank: int) -> NDArray[np.float64]:
    return nearest(queries, base, rank + 1)[0][:, rank]
