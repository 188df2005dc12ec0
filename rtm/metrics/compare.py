"""Compare any two sets of images by the pipeline's own metrics; on request also look for copies."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.randomness import permutation, seed_of
from rtm.metrics.images import Pictures, Selection, some_of
from rtm.metrics.measure import measure
from rtm.metrics.memorisation import copies
from rtm.metrics.networks import Networks, Weights
from rtm.metrics.witnesses import witnesses


@dataclass(frozen=True)
class ImageSource:
    """A set of images, and where it is from."""

    name: str  # as the user wrote it
    images: Pictures
    dataset: str | None = None  # the dataset that the images are from, or that their model was trained on
    training: bool = False  # whether it is the training set of `dataset`


def compare(
    one: ImageSource,  # the images that are measured
    reference: ImageSource,  # the images to compare with
    protocol_name: str,
    protocol: Protocol,
    weights: Weights,
    kept: Path,  # folder of the features that later calls need not extract again
    samples: int | None = None,  # how many images of `one`; by default the protocol's number
    seed: int = 0,  # of the random subset
    train: ImageSource | None = None,  # look for copies of these training images
    held_out: ImageSource | None = None,  # images that no training saw, to look for copies
    check: bool = False,  # whether other packages measure the same features, too
) -> dict[str, Any]:
    """Every metric of one set against another, with intervals and with the origin of both sets."""
    required = protocol.required(reference.dataset or "")
    fake = selection(one, required if samples is None else samples, required, seed, protocol)
    sources = {"reference": reference}
    if train is not None:
        sources["train"] = train
        if held_out is not None:
            sources["held_out"] = held_out
    fewest = protocol.k + 1
    selections = {role: _whole(source, fake, one.name, fewest) for role, source in sources.items()}
    networks = Networks(protocol, weights, kept)
    real = networks.reference(selections["reference"])
    pr_count = protocol.pr_samples if train is None else None  # copies are looked for among all
    features = networks.image_set(fake, None, pr_count)
    measurement = measure(features, real, protocol)
    result: dict[str, Any] = {
        "images": {"name": one.name, "found": len(one.images), "sha256": fake.sha256},
        "dataset": reference.dataset,
        "protocol": protocol_name,
        "off_protocol": list(_deviations(reference, len(fake), required, protocol)),
        "samples": len(fake),
        "subset_seed": seed if len(fake) < len(one.images) else None,
        "floor": measurement.floor,
        "metrics": measurement.metrics,
        "intervals": measurement.intervals,
        "provenance": {
            "weights": {name: digest(weights[name]) for name in networks.extractors},
            "extractors": real.extractors,
        },
    }
    if missing := networks.missing(features):
        result["missing"] = missing
    if train is not None:
        result["memorisation"] = _copies(features.coverage.features, selections, networks)
    if check:
        result["witnesses"] = witnesses(features, real, protocol)
    for role, source in sources.items():
        result[role] = {
            "name": source.name,
            "images": len(source.images),
            "sha256": selections[role].sha256,
        }
    keys = selections["reference"].keys
    result["notes"] = list(_notes(one.name, fake.keys, reference.name, keys))
    return result


def _notes(one: str, images: list[bytes], other: str, reference: list[bytes]) -> Iterator[str]:
    """Warnings about images that are equal bit for bit: they make metrics too good and intervals too narrow."""
    if shared := len(set(images) & set(reference)):
        yield f"{shared:,} images of {one} are in {other} too, bit for bit"
    for name, keys in ((one, images), (other, reference)):
        if repeated := len(keys) - len(set(keys)):
            yield f"{repeated:,} images of {name} repeat others of it; intervals take images as independent"


def selection(
    source: ImageSource,
    count: int,
    required: int,
    seed: int,
    protocol: Protocol,
) -> Selection:
    """The images to measure. If they are too few, an error comes before any features are extracted."""
    fewest = max(protocol.k + 1, protocol.splits)
    if count < fewest:
        raise UserError(f"The protocol's metrics need at least {fewest} images, not {count}.")
    total = len(source.images)
    if total < count:
        advice = "give more"
        if total >= fewest:
            advice = f"`--samples {total}` measures those, and says that it is off protocol"
        asked = f"--samples asks for {count:,}"
        if count == required:
            asked = f"The protocol asks for {required:,} images"
        raise UserError(f"{asked} and {source.name} has {total:,}; {advice}.")
    rows = some_of(total, count, seed)
    if protocol.pr_samples:  # precision and recall use the first images, but a folder may be sorted by class
        rows = rows[permutation(seed_of("order", seed), count).numpy()]
    return Selection(source.images, rows)


def _whole(source: ImageSource, fake: Selection, name: str, fewest: int) -> Selection:
    """All images of a set. An error if their size differs from the size of `fake`: resizing would change them."""
    total = len(source.images)
    fewest = max(fewest, 4)
    if total < fewest:
        raise UserError(f"{source.name} has too few images, {total}; compare with at least {fewest}.")
    images = Selection(source.images, np.arange(total))
    if fake.shape != images.shape:
        height, width = fake.shape
        other_height, other_width = images.shape
        raise UserError(
            f"The images differ in size, {name} of {width} x {height} px and {source.name} of "
            f"{other_width} x {other_height} px: resize one set."
        )
    return images


def _deviations(reference: ImageSource, count: int, required: int, protocol: Protocol) -> Iterator[str]:
    """The deviations from the protocol: with any of them, the numbers cannot be compared with tables."""
    if count != required:
        yield f"{count:,} images instead of {required:,}"
    trained_on = reference.dataset if reference.training else None
    if trained_on is None or reference.name != protocol.compared(trained_on):
        yield f"compared with {reference.name} instead of a dataset's reference"


def _copies(fake: np.ndarray, selections: dict[str, Selection], networks: Networks) -> dict[str, Any]:
    """Look for copies. If the test is impossible, the result says why, so that the metrics are not lost."""
    look = partial(networks.features, networks.protocol.pr_extractor)
    train = look(selections["train"]).features
    held_out = look(selections["held_out"]).features if "held_out" in selections else None
    try:
        return copies(fake, train, held_out)
    except UserError as refusal:
        return {"says": str(refusal)}
