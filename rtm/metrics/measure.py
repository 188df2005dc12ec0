"""Every metric of a protocol, from the features of generated and of real images."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from rtm.config.catalogue import decimals, functions
from rtm.config.classes import imported
from rtm.config.experiments import Protocol
from rtm.metrics.features import FeatureSet
from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.image_set import ImageSet
from rtm.metrics.inception_score import inception_score, inception_score_error
from rtm.metrics.kid import kernel_distance
from rtm.metrics.prdc import membership
from rtm.metrics.prdc_error import prdc_intervals
from rtm.metrics.uncertainty import Interval, about, frechet_error, of_share

SURE = 0.9  # a digit counts as readable if the classifier's probability is above this

Compute = Callable[[ImageSet, ImageSet, Protocol], dict[str, float]]  # of generated and of real images


@dataclass(frozen=True)
class Measurement:
    metrics: dict[str, float]
    intervals: dict[str, Interval]  # 95 %, by the metric's name, over the generated images
    floor: tuple[int, int]  # the numbers of real images behind `fid_floor`


def measure(fake: ImageSet, real: ImageSet, protocol: Protocol) -> Measurement:
    """Every metric of a protocol by name, with intervals."""
    statistics = Statistics.of(fake.quality.features, "fake")
    fid = frechet_distance(real.statistics, statistics)
    floor, sizes = real.floor(len(statistics))
    kid, kid_error = kernel_distance(real.kernel, fake.kernel)
    metrics = {"fid": fid, "fid_floor": floor, "kid": kid, "kid_se": kid_error}
    fid_error = frechet_error(real.statistics, statistics)
    intervals = {"fid": about(fid, fid_error, low=0), "kid": about(kid, kid_error)}
    _add_scores(fake.quality, protocol, metrics, intervals)
    some = fake.coverage.features[: protocol.pr_samples]
    members = membership(real.coverage.features, some, protocol.k, protocol.strict)
    metrics |= members.metrics()
    intervals |= prdc_intervals(real.coverage.features, some, members, protocol.strict)
    for name in functions():
        compute: Compute = imported(name)
        metrics |= compute(fake, real, protocol)
    rounded = {name: round(value, decimals(name)) for name, value in metrics.items()}
    bounds = {
        name: (round(low, decimals(name)), round(high, decimals(name))) for name, (low, high) in intervals.items()
    }
    return Measurement(rounded, bounds, sizes)


def _add_scores(
    fake: FeatureSet,
    protocol: Protocol,
    metrics: dict[str, float],
    intervals: dict[str, Interval],
) -> None:
    """The metrics of a network with classes."""
    if fake.logits is None:
        return
    score, spread = inception_score(fake.logits, protocol.splits)
    metrics |= {"is": score, "is_std": spread}
    intervals["is"] = about(score, inception_score_error(fake.logits, protocol.splits), low=1)
    if protocol.extractor == "digit_classifier":
        largest = softmax(fake.logits, axis=1).max(axis=1)
        sure = float(np.mean(largest > SURE))
        metrics["sure"] = sure
        intervals["sure"] = of_share(sure, len(fake))
