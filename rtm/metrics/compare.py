"""Compare any two sets of images by the pipeline's own metrics; on request also look for copies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rtm.config import Config
from rtm.config.experiments import Protocol
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.core.layout import Layout
from rtm.core.randomness import permutation, seed_of
from rtm.metrics.evaluate import (
    Measured,
    extracted,
    features_of,
    load_extractors,
    measure,
    missing_metrics,
    reference_features,
)
from rtm.metrics.features import Extractor, FeatureSet
from rtm.metrics.images import Chosen, some_of
from rtm.metrics.memorisation import copies
from rtm.metrics.sets import Named, held_out_of, training_set


def compare(
    config: Config,
    layout: Layout,
    one: Named,  # the images that are measured
    other: Named,  # the images to compare with
    protocol_name: str,
    samples: int | None = None,  # how many images of `one`; by default the protocol's number
    seed: int = 0,  # of the random subset
    memorised: bool = False,  # whether to look for copies of training images
    held_out: Named | None = None,  # images that no training saw; by default the dataset's own, if it has some
) -> dict[str, Any]:
    """Every metric of one set against another, with intervals and with the origin of both sets."""
    protocol, kept = config.params.protocols[protocol_name], layout.kept_features()
    required = protocol.required(other.dataset or "")
    fake = chosen(one, required if samples is None else samples, required, seed, protocol)
    named = {"reference": other}
    if memorised:
        named["train"] = training_set(layout, other)
        if unseen := held_out or held_out_of(config, layout, other, protocol):
            named["held_out"] = unseen
    sets = {role: _whole(each, fake, one.name, protocol.k + 1) for role, each in named.items()}
    extractors = load_extractors(protocol, layout)
    real = reference_features(sets["reference"], protocol, extractors, kept)
    features = features_of(fake, protocol, extractors, None, None if memorised else protocol.pr_samples, kept)
    result = {
        "images": {"name": one.name, "found": len(one.images), "sha256": fake.sha256},
        **{role: {"name": each.name, "images": len(each.images)} for role, each in named.items()},
        "protocol": protocol_name,
        "off_protocol": list(_deviations(other, len(fake), required, protocol)),
        "samples": len(fake),
        "subset_seed": seed if len(fake) < len(one.images) else None,
        **described(measure(features, real, protocol), missing_metrics(features, protocol, layout)),
        "provenance": {"weights": _weights(layout, extractors), "extractors": real.extractors},
    }
    if memorised:
        result["memorisation"] = _copies(features.coverage, sets, extractors[protocol.pr_extractor], kept)
    for role, each in sets.items():
        result[role]["sha256"] = each.sha256
    result["notes"] = list(_notes(one.name, fake.keys, other.name, sets["reference"].keys))
    return result


def _notes(one: str, images: list[bytes], other: str, reference: list[bytes]) -> Iterator[str]:
    """Warnings about images that are equal bit for bit: they make metrics too good and intervals too narrow."""
    if shared := len(set(images) & set(reference)):
        yield f"{shared:,} images of {one} are in {other} too, bit for bit"
    for name, keys in ((one, images), (other, reference)):
        if repeated := len(keys) - len(set(keys)):
            yield f"{repeated:,} images of {name} repeat others of it; intervals take images as independent"


def chosen(one: Named, count: int, required: int, seed: int, protocol: Protocol) -> Chosen:
    """The images to measure. If they are too few, an error comes before any features are extracted."""
    fewest = max(protocol.k + 1, protocol.splits)
    if count < fewest:
        raise UserError(f"The protocol's metrics need at least {fewest} images, not {count}.")
    if (found := len(one.images)) < count:
        advice = f"`--samples {found}` measures those, and says that it is off protocol" if found >= fewest else ""
        asked = f"The protocol asks for {required:,} images" if count == required else f"--samples asks for {count:,}"
        raise UserError(f"{asked} and {one.name} has {found:,}; {advice or 'give more'}.")
    rows = some_of(found, count, seed)
    if protocol.pr_samples:  # precision and recall use the first images, but a folder may be sorted by class
        rows = rows[permutation(seed_of("order", seed), count).numpy()]
    return Chosen(one.images, rows)


def _whole(named: Named, fake: Chosen, name: str, fewest: int) -> Chosen:
    """All images of a set. An error if their size differs from the size of `fake`: resizing would change them."""
    if (found := len(named.images)) < (fewest := max(fewest, 4)):
        raise UserError(f"{named.name} has too few images, {found}; compare with at least {fewest}.")
    images = Chosen(named.images, np.arange(len(named.images)))
    if (one := fake.shape) != (other := images.shape):
        sizes = " and ".join(
            f"{each} of {width} x {height} px" for each, (height, width) in ((name, one), (named.name, other))
        )
        raise UserError(f"The images differ in size, {sizes}: resize one set.")
    return images


def _deviations(other: Named, count: int, required: int, protocol: Protocol) -> Iterator[str]:
    """The deviations from the protocol: with any of them, the numbers cannot be compared with tables."""
    if count != required:
        yield f"{count:,} images instead of {required:,}"
    if not (other.training and other.dataset and other.name == protocol.compared(other.dataset)):
        yield f"compared with {other.name} instead of a dataset's reference"


def described(measured: Measured, missing: dict[str, str]) -> dict[str, Any]:
    found = {"floor": measured.floor, "metrics": measured.metrics, "intervals": measured.intervals}
    return found | ({"missing": missing} if missing else {})


def _weights(layout: Layout, extractors: dict[str, Extractor]) -> dict[str, str]:
    return {name: digest(layout.weights(name)) for name in extractors}


def _copies(fake: FeatureSet, sets: dict[str, Chosen], extractor: Extractor, kept: Path) -> dict[str, Any]:
    """Look for copies. If the test is impossible, the result says why, so that the metrics are not lost."""
    train, unseen = (
        extracted(sets[role], extractor, len(sets[role]), kept).features if role in sets else None
        for role in ("train", "held_out")
    )
    assert train is not None
    try:
        return copies(fake.features, train, unseen)
    except UserError as refusal:
        return {"says": str(refusal)}
