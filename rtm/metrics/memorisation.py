"""Does a model copy its training images? Precision and recall reward copies.

The test needs held-out images. A generated image is nearer to the training set or to a held-out set of the same size.
If the model has not memorised the training set, its images are nearer to each set equally often, even if they are bad
or all similar. Without held-out images only near-duplicates can be found.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc

from rtm.core.distances import Floats, Ints, nearest
from rtm.core.errors import UserError
from rtm.metrics.uncertainty import exact_share

SAME = 1e-5  # share of a feature's length: nearer images are equal, because rounding differs between batches
DUPLICATE = 1 / 3  # share of the distance to the second nearest training image (Yoon et al. 2023)
SIGNIFICANCE = 0.001  # the probability that a model without copies is reported to copy


def copies(
    fake: NDArray[np.floating],  # features of the generated images
    train: NDArray[np.floating],  # of the training images
    held_out: NDArray[np.floating] | None = None,  # of images from the same source that no training saw
    seed: int = 0,  # of the random subset that makes both sets equally large
) -> dict[str, Any]:
    """The evidence for copies; `says` is a sentence about it."""
    if len(train) < 2:
        raise UserError(f"Copies are looked for among at least 2 training images, not {len(train)}.")
    duplicates = float(_duplicates(fake, train).mean())
    found: dict[str, Any] = {
        "images": len(fake),
        "near_duplicates": duplicates,
        "near_duplicates_interval": exact_share(duplicates, len(fake)),
    }
    if held_out is None:
        limit = "No images were held out, so only near-duplicates of training images can be found"
        return found | {"says": f"{limit}: {duplicates:.2%} of the images are."}
    return found | _nearer(fake, train, held_out, seed)


def _duplicates(fake: NDArray[np.floating], train: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Images much nearer to one training image than to any other, or equal to one."""
    found = nearest(fake, train, 2)[0]
    equal = found[:, 0] <= SAME * np.linalg.norm(fake, axis=1)
    return np.asarray(equal | (found[:, 0] < DUPLICATE * found[:, 1]))


def _nearer(
    fake: NDArray[np.floating], train: NDArray[np.floating], held_out: NDArray[np.floating], seed: int
) -> dict[str, Any]:
    """The share of images that are nearer to the training set; images with equal distances are left out.

    Images with the same nearest neighbour are not independent, so the test uses an effective number of images (Kish
    1965). Otherwise a model with similar images, which share few neighbours, would be reported to copy.
    """
    if (overlap := float(_equal(held_out, train).mean())) > 0.01:
        raise UserError(
            f"{overlap:.0%} of the held-out images are in the training set, so they show nothing about copies; "
            "hold out other images."
        )
    random, size = np.random.default_rng(seed), min(len(train), len(held_out))
    halves = [each[np.sort(random.permutation(len(each))[:size])] for each in (train, held_out)]
    (to_train, which), (to_other, other) = (_to_nearest(fake, half) for half in halves)
    decided = to_train != to_other
    closer = (to_train < to_other)[decided]
    if not len(closer):
        raise UserError("Every generated image is as near to the training set as to the held-out images: no test.")
    neighbours = np.where(closer, which[decided], size + other[decided])
    effective = len(closer) ** 2 / float(np.square(np.bincount(neighbours)).sum())
    share = float(closer.mean())
    chance = float(betainc(share * effective, (1 - share) * effective + 1, 0.5)) if share > 0 else 1.0
    low, high = exact_share(share, effective)
    verdict = "copies, or images too near to it" if chance < SIGNIFICANCE else "no sign of copies"
    return {
        "nearer_to_train": share,
        "nearer_to_train_interval": (low, high),
        "chance": chance,  # the probability of such a large share without copying
        "ties": int((~decided).sum()),
        "effective_images": effective,
        "set_size": size,
        "says": f"{share:.1%} of the images ({low:.1%} to {high:.1%}) are nearer to the training set than to as many "
        f"held-out images; without copying it is 50 %: {verdict}.",
    }


def _equal(queries: NDArray[np.floating], base: NDArray[np.floating]) -> NDArray[np.bool_]:
    return np.asarray(_to_nearest(queries, base)[0] <= SAME * np.linalg.norm(queries, axis=1))


def _to_nearest(queries: NDArray[np.floating], base: NDArray[np.floating]) -> tuple[Floats, Ints]:
    distances, indices = nearest(queries, base, 1)
    return distances[:, 0], indices[:, 0]
