"""The stage `evaluate`: from samples to the metrics of a protocol, with a record of all inputs."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import load_file, save
from scipy.special import softmax

from rtm.config import Config, Experiment
from rtm.config.experiments import Protocol, Recursive, Watching
from rtm.core.devices import best_device
from rtm.core.errors import UserError
from rtm.core.files import atomic, digest, reading, write_json
from rtm.core.layout import Layout, at_scale
from rtm.data.datasets import Images
from rtm.data.parts import lacking
from rtm.metrics.features import DigitsExtractor, Extractor, FeatureSet, extract
from rtm.metrics.fid import Statistics, frechet_distance, frechet_floor
from rtm.metrics.images import Pictures, some_of
from rtm.metrics.inception_score import inception_score, inception_score_error
from rtm.metrics.kept import Kept
from rtm.metrics.kid import Kernel, kernel_distance
from rtm.metrics.prdc import Membership, membership, prdc
from rtm.metrics.prdc_error import prdc_intervals
from rtm.metrics.refinement import Curves, Refinement, hardness
from rtm.metrics.uncertainty import Interval, about, frechet_error, of_share

BATCH = 128
FEW = 10_000  # most samples whose features are kept (80 MB with Inception), because variants and protocols share images
DIGITS = {"kid": 9, "kid_se": 9}  # decimals in files; of other metrics 6
SURE = 0.9  # a digit counts as readable if the classifier's probability is above this


@dataclass(frozen=True)
class ImageSet:
    """The features of a set of images under a protocol."""

    quality: FeatureSet  # for FID and IS
    coverage: FeatureSet  # for precision and recall; the same object if one network serves both
    extractors: dict[str, str]  # name: digest

    def save(self, path: Path) -> None:
        tensors = {"quality": self.quality.features, "logits": self.quality.logits}
        if self.coverage is not self.quality:
            tensors["coverage"] = self.coverage.features
        present = {name: array for name, array in tensors.items() if array is not None}
        with atomic(path) as file:
            file.write(save(present, metadata={"extractors": json.dumps(self.extractors, sort_keys=True)}))

    @cached_property
    def statistics(self) -> Statistics:
        return Statistics.of(self.quality.features)

    @cached_property
    def floor(self) -> Callable[[int], tuple[float, tuple[int, int]]]:
        """A function from the number of generated images to `frechet_floor`; it computes each value once."""
        return cache(partial(frechet_floor, self.statistics))

    @cached_property
    def kernel(self) -> Kernel:
        return Kernel.of(self.quality.features)

    @classmethod
    def load(cls, path: Path) -> "ImageSet":
        remedy = f"make it with `rtm reference {path.parent.name} {path.stem}{at_scale(path, 3)}`"
        if not path.exists():
            raise UserError(f"{path} is missing; {remedy}.")
        with reading(path, remedy), safe_open(path, "numpy") as file:
            tensors, extractors = load_file(path), json.loads(file.metadata()["extractors"])
            assert all(np.isfinite(each).all() for each in tensors.values()), "not finite"
            quality = FeatureSet(tensors["quality"], tensors.get("logits"))
        coverage = FeatureSet(tensors["coverage"], None) if "coverage" in tensors else quality
        return cls(quality, coverage, extractors)


def extractor_of(name: str, protocol: Protocol, layout: Layout) -> Extractor:
    weights = layout.weights(name)
    if name == "digit_classifier":
        return DigitsExtractor(weights)
    if name == "vgg16":
        from rtm.metrics.vgg16 import VGG16Extractor

        return VGG16Extractor(weights)
    if name == "dinov2":
        from rtm.metrics.dinov2 import DINOv2Extractor

        return DINOv2Extractor(weights)
    from rtm.metrics.inception import InceptionExtractor

    return InceptionExtractor(weights, protocol.resize)


def load_extractors(protocol: Protocol, layout: Layout, real: ImageSet | None = None) -> dict[str, Extractor]:
    """The protocol's networks by name; an error if other networks made the features `real`."""
    names: set[str] = {protocol.extractor, protocol.pr_extractor}
    extractors = {name: extractor_of(name, protocol, layout) for name in sorted(names)}
    if real is not None and _digests(extractors) != real.extractors:
        raise UserError("The reference was made with other weights than are here now; make it again (`rtm reference`).")
    return extractors


def _digests(extractors: dict[str, Extractor]) -> dict[str, str]:
    return {name: extractor.digest for name, extractor in extractors.items()}


def check_count(images: Pictures, required: int) -> None:
    if len(images) < required:
        raise UserError(
            f"The protocol asks for {required} samples and there are {len(images)}; generate more "
            "(evaluation.samples in params/recipes.yaml)."
        )


def features_of(
    images: Pictures,  # (N, H, W, 3)
    protocol: Protocol,
    extractors: dict[str, Extractor],
    count: int | None = None,  # FID and IS use this many of the first images; by default all
    pr_count: int | None = None,  # precision and recall use this many of the first images; by default `count`
    kept: Path | None = None,  # a folder that keeps features for later calls
) -> ImageSet:
    """Features by the protocol's networks. Each network runs once, and only on the images that need it."""
    count = count or len(images)
    counts: dict[str, int] = {protocol.pr_extractor: min(pr_count or count, count), protocol.extractor: count}
    sets = {name: extracted(images, extractors[name], number, kept) for name, number in counts.items()}
    return ImageSet(sets[protocol.extractor], sets[protocol.pr_extractor], _digests(extractors))


def reference_features(images: Pictures, protocol: Protocol, extractors: dict[str, Extractor], kept: Path) -> ImageSet:
    """Features of the real images. Precision and recall use a random subset if the protocol asks for one."""
    found = features_of(images, protocol, extractors, kept=kept)
    if protocol.pr_reference is None or protocol.pr_reference >= len(images):
        return found
    rows = some_of(len(images), protocol.pr_reference, seed=0)
    return replace(found, coverage=FeatureSet(found.coverage.features[rows], None))


def extracted(images: Pictures, extractor: Extractor, count: int, kept: Path | None) -> FeatureSet:
    if kept is None or extractor.quick:
        return extract(images, extractor, BATCH, best_device(), count)
    return Kept(kept, extractor, BATCH, best_device()).features(images, count)


@dataclass(frozen=True)
class Measured:
    metrics: dict[str, float]
    intervals: dict[str, Interval]  # 95 %, by the metric's name, over the generated images
    floor: tuple[int, int]  # the numbers of real images behind `fid_floor`
    members: Membership  # the decisions behind precision, recall, density and coverage


def measure(fake: ImageSet, real: ImageSet, protocol: Protocol) -> Measured:
    """Every metric of a protocol by name, with intervals."""
    statistics = Statistics.of(fake.quality.features, "fake")
    fid, error = frechet_distance(real.statistics, statistics), frechet_error(real.statistics, statistics)
    metrics, intervals = {"fid": fid}, {"fid": about(fid, error, low=0)}
    metrics["fid_floor"], floor = real.floor(len(statistics))
    metrics["kid"], metrics["kid_se"] = kernel_distance(real.kernel, fake.kernel)
    intervals["kid"] = about(metrics["kid"], metrics["kid_se"])
    if fake.quality.logits is not None:
        metrics["is"], metrics["is_std"] = inception_score(fake.quality.logits, protocol.splits)
        intervals["is"] = about(metrics["is"], inception_score_error(fake.quality.logits, protocol.splits), low=1)
        if protocol.extractor == "digit_classifier":
            metrics["sure"] = float((softmax(fake.quality.logits, axis=1).max(axis=1) > SURE).mean())
            intervals["sure"] = of_share(metrics["sure"], len(fake.quality))
    chosen = fake.coverage.features[: protocol.pr_samples]
    members = membership(real.coverage.features, chosen, protocol.k, protocol.strict)
    metrics |= members.metrics()
    intervals |= prdc_intervals(real.coverage.features, chosen, members, protocol.strict)
    decimals = {name: DIGITS.get(name, 6) for name in metrics}
    rounded = {
        name: (round(low, decimals[name]), round(high, decimals[name])) for name, (low, high) in intervals.items()
    }
    return Measured({name: round(value, decimals[name]) for name, value in metrics.items()}, rounded, floor, members)


def missing_metrics(fake: ImageSet, protocol: Protocol, layout: Layout) -> dict[str, str]:
    """The metrics that the weights files cannot give, each with a sentence that says why."""
    if fake.quality.logits is not None or protocol.extractor != "inception":
        return {}
    path = layout.weights("inception")
    return {"is": f"{path} lacks {lacking('inception', path)}; see `rtm doctor`."}


def fid_of(images: Pictures, reference: Path, protocol: Protocol, layout: Layout) -> float:
    """Only FID, which selects the checkpoint during training."""
    fake = extract(images, extractor_of(protocol.extractor, protocol, layout), BATCH, best_device())
    return frechet_distance(ImageSet.load(reference).statistics, fake.features)


def curve_metrics(real: Pictures, watching: Watching, layout: Layout) -> Callable[[Pictures], dict[str, float]]:
    """A function for FID, precision and recall of few images against equally many real images: only for curves."""
    small = watching.extractor == "digit_classifier"
    protocol = Protocol(
        title="on the way",
        extractor=watching.extractor,
        pr_extractor=watching.extractor,
        resize="none" if small else "tf1",
        k=watching.k,
        strict=True,
        splits=1,
        samples={"default": watching.samples},
    )
    extractors = load_extractors(protocol, layout)
    reference = features_of(real, protocol, extractors)

    def metrics_of(images: Pictures) -> dict[str, float]:
        features = features_of(images, protocol, extractors).quality.features
        found = {"fid": frechet_distance(reference.statistics, features)}
        found |= prdc(reference.quality.features, features, protocol.k, protocol.strict)
        return {name: round(found[name], 6) for name in ("fid", "precision", "recall")}

    return metrics_of


def write_reference(config: Config, layout: Layout, dataset: str, protocol: str) -> None:
    chosen = config.params.protocols[protocol]
    images = Images(layout.images(chosen.compared(dataset)))
    features = reference_features(images.pixels, chosen, load_extractors(chosen, layout), layout.kept_features())
    features.save(layout.reference(dataset, protocol))


def write_metrics(config: Config, layout: Layout, experiment: Experiment, protocol_name: str, seed: int) -> None:
    """Write the metrics of every variant of an experiment's samples, with a record of all inputs."""
    protocol = config.params.protocols[protocol_name]
    required = protocol.required(experiment.dataset_name)
    samples = {variant: samples_of(layout, experiment, seed, variant, required) for variant in experiment.variants}
    reference = layout.reference(experiment.dataset_name, protocol_name)
    real = ImageSet.load(reference)
    extractors = load_extractors(protocol, layout, real)
    measured, features = dict[str, Measured](), dict[str, FeatureSet]()
    kept = layout.kept_features() if required <= FEW else None
    for variant, images in samples.items():
        found = features_of(images, protocol, extractors, required, protocol.pr_samples, kept)
        measured[variant], features[variant] = measure(found, real, protocol), found.quality
        missing = missing_metrics(found, protocol, layout)
    metrics = {variant: each.metrics for variant, each in measured.items()}
    extractor = extractors[protocol.extractor]

    def look(images: Pictures) -> FeatureSet:
        return extracted(images, extractor, len(images), kept)

    refinement = _refinement(layout, experiment, seed, metrics, features, real, look)
    written: dict[str, Any] = {
        "experiment": experiment.name,
        "protocol": protocol_name,
        "seed": seed,
        "samples": required,
        "floor": measured["native"].floor,
        "metrics": metrics,
        "intervals": {variant: each.intervals for variant, each in measured.items()},
        **({"missing": missing} if missing else {}),
        **refinement,
        "provenance": {
            "checkpoint_sha256": digest(layout.checkpoint(experiment.name, seed)),
            "reference_sha256": digest(reference),
            "extractors": real.extractors,
        },
    }
    write_json(layout.metrics(experiment.name, protocol_name, seed), written)


def _refinement(
    layout: Layout,
    experiment: Experiment,
    seed: int,
    metrics: dict[str, dict[str, float]],  # by variant; the measurements of its depth are added here
    features: dict[str, FeatureSet],  # of the samples, by variant
    real: ImageSet,
    look: Callable[[Pictures], FeatureSet],
) -> dict[str, Curves]:
    """The convergence of a recursive mapper; empty for other mappers."""
    if not isinstance(experiment.mapper, Recursive):
        return {}
    refinement = Refinement.load(experiment, layout.checkpoint(experiment.name, seed), seed)
    for variant, depth in experiment.depths.items():
        if depth.halting:
            path = layout.samples(experiment.name, seed) / f"{variant}.steps.npy"
            with reading(
                path, f"make it again with `rtm sample {experiment.name} --seed {seed}{at_scale(layout.root, 0)}`"
            ):
                steps = torch.from_numpy(np.load(path))
        else:
            steps = torch.full((len(features[variant]),), depth.H or 0)
        measured = refinement.measured(steps, features[variant], look)
        measured["hardness"] = hardness(steps.numpy(), features[variant].features, real.quality.features)
        metrics[variant] |= {name: round(value, 9) for name, value in measured.items()}
    return {"refinement": refinement.curves()}


def samples_of(layout: Layout, experiment: Experiment, seed: int, variant: str, required: int = 1) -> Pictures:
    path = layout.samples(experiment.name, seed) / f"{variant}.npy"
    if not path.exists():
        raise UserError(
            f"{path} is missing; make it with `rtm sample {experiment.name} --seed {seed}{at_scale(layout.root, 0)}`."
        )
    side = experiment.dataset.resolution
    with reading(
        path, f"delete it and make it again with `rtm sample {experiment.name} --seed {seed}{at_scale(layout.root, 0)}`"
    ):
        images: NDArray[np.uint8] = np.load(path, mmap_mode="r")
        assert images.dtype == np.uint8 and images.shape[1:] == (side, side, 3), f"{images.dtype} {images.shape}"
    check_count(images, required)
    return images
