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
    result: dict[str, Any] = {
        "images": len(fake),
        "near_duplicates": duplicates,
        "near_duplicates_interval": exact_share(duplicates, len(fake)),
    }
    if held_out is None:
        limit = "No images were held out, so only near-duplicates of training images can be found"
        return result | {"says": f"{limit}: {duplicates:.2%} of the images are."}
    return result | _nearer(fake, train, held_out, seed)


def _duplicates(fake: NDArray[np.floating], train: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Images much nearer to one training image than to any other, or equal to one."""
    distances, _ = nearest(fake, train, 2)
    first, second = distances.T
    equal = first <= SAME * np.linalg.norm(fake, axis=1)
    return np.asarray(equal | (first < DUPLICATE * second))


def _nearer(
    fake: NDArray[np.floating],
    train: NDArray[np.floating],
    held_out: NDArray[np.floating],
    seed: int,
) -> dict[str, Any]:
    """The share of images that are nearer to the training set; images with equal distances are left out.

    Images with the same nearest neighbour are not independent, so the test uses an effective number of images (Kish
    1965). Otherwise a model with similar images, which share few neighbours, would be reported to copy.
    """
    overlap = float(_equal(held_out, train).mean())
    if overlap > 0.01:
        raise UserError(
            f"{overlap:.0%} of the held-out images are in the training set, so they show nothing about copies; "
            "hold out other images."
        )
    random = np.random.default_rng(seed)
    size = min(len(train), len(held_out))
    some_train = train[np.sort(random.permutation(len(train))[:size])]
    some_held_out = held_out[np.sort(random.permutation(len(held_out))[:size])]
    to_train, in_train = _to_nearest(fake, some_train)
    to_held_out, in_held_out = _to_nearest(fake, some_held_out)
    decided = to_train != to_held_out
    closer = (to_train < to_held_out)[decided]
    if not len(closer):
        raise UserError("Every generated image is as near to the training set as to the held-out images: no test.")
    neighbours = np.where(closer, in_train[decided], size + in_held_out[decided])
    uses = np.bincount(neighbours)
    effective = len(closer) ** 2 / float(np.square(uses).sum())
    share = float(closer.mean())
    chance = 1.0
    if share > 0:
        chance = float(betainc(share * effective, (1 - share) * effective + 1, 0.5))
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
    distances, _ = _to_nearest(queries, base)
    return np.asarray(distances <= SAME * np.linalg.norm(queries, axis=1))


def _to_nearest(queries: NDArray[np.floating], base: NDArray[np.floating]) -> tuple[Floats, Ints]:
    distances, indices = nearest(queries, base, 1)
    return distances[:, 0], indices[:, 0]
