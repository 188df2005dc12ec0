"""A protocol from samples to numbers: extract once, compare with the reference, and tell how it was made."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save

from rtm.config import Config, Experiment
from rtm.config.experiments import Protocol, Watching
from rtm.core.errors import UserError
from rtm.core.files import atomic, digest, reading, write_json
from rtm.core.layout import Layout
from rtm.core.versions import loaded_versions
from rtm.data.datasets import Images
from rtm.metrics.features import DigitsExtractor, Extractor, FeatureSet, extract
from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.images import Pictures
from rtm.metrics.inception_score import inception_score
from rtm.metrics.prdc import Membership, membership

BATCH = 128


@dataclass(frozen=True)
class ImageSet:
    """A set of images as a protocol sees it: for FID and IS, and for precision and recall."""

    quality: FeatureSet
    coverage: FeatureSet  # the same object where one network serves both
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

    @classmethod
    def load(cls, path: Path) -> "ImageSet":
        remedy = f"make it with `rtm reference {path.parent.name} {path.stem}`"
        if not path.exists():
            raise UserError(f"{path} is missing; {remedy}.")
        with reading(path, remedy), safe_open(path, "numpy") as file:
            tensors, extractors = load_file(path), json.loads(file.metadata()["extractors"])
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
    from rtm.metrics.inception import InceptionExtractor

    return InceptionExtractor(weights, protocol.resize)


def see(images: Pictures, protocol: Protocol, layout: Layout) -> ImageSet:
    """Features of images (N, H, W, 3) by the protocol's networks, each run once."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    names: set[str] = {protocol.extractor, protocol.pr_extractor}
    extractors = {name: extractor_of(name, protocol, layout) for name in sorted(names)}
    seen = {name: extract(images, extractor, BATCH, device) for name, extractor in extractors.items()}
    digests = {name: extractor.digest for name, extractor in extractors.items()}
    return ImageSet(seen[protocol.extractor], seen[protocol.pr_extractor], digests)


@dataclass(frozen=True)
class Measured:
    metrics: dict[str, float]
    members: Membership  # the decisions behind precision, recall, density and coverage


def measure(fake: ImageSet, real: ImageSet, protocol: Protocol, required: int) -> Measured:
    """Every metric of a protocol by name, of the first `required` images."""
    if len(fake.quality) < required:
        raise UserError(
            f"The protocol asks for {required} samples and there are {len(fake.quality)}; generate more "
            "(evaluation.samples in params/recipes.yaml)."
        )
    if fake.extractors != real.extractors:
        raise UserError("The reference was made with other weights than are here now; make it again (`rtm reference`).")
    used = fake.quality.first(required)
    metrics = {"fid": frechet_distance(real.statistics, used.features)}
    if used.logits is not None:
        metrics["is"], metrics["is_std"] = inception_score(used.logits, protocol.splits)
    chosen = fake.coverage.features[: protocol.pr_samples or required]
    members = membership(real.coverage.features, chosen, protocol.k, protocol.strict)
    metrics |= members.metrics()
    return Measured({name: round(value, 6) for name, value in metrics.items()}, members)


def fid_of(images: Pictures, reference: Path, protocol: Protocol, layout: Layout) -> float:
    """FID alone: what selects a checkpoint in training."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    fake = extract(images, extractor_of(protocol.extractor, protocol, layout), BATCH, device)
    return frechet_distance(ImageSet.load(reference).statistics, fake.features)


def glance(real: Pictures, watching: Watching, layout: Layout) -> Callable[[Pictures], dict[str, float]]:
    """What tells FID, precision and recall of few images against as many real ones: for a curve, not for a table."""
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
    reference = see(real, protocol, layout)

    def look(images: Pictures) -> dict[str, float]:
        metrics = measure(see(images, protocol, layout), reference, protocol, len(images)).metrics
        return {name: metrics[name] for name in ("fid", "precision", "recall")}

    return look


def write_reference(config: Config, layout: Layout, dataset: str, protocol: str) -> None:
    images = Images(layout.images(dataset))
    see(images.pixels, config.params.protocols[protocol], layout).save(layout.reference(dataset, protocol))


def write_metrics(config: Config, layout: Layout, experiment: Experiment, protocol_name: str, seed: int) -> None:
    """The metrics of every variant of an experiment's samples, with what they were made from."""
    protocol, folder = config.params.protocols[protocol_name], layout.samples(experiment.name, seed)
    reference = layout.reference(experiment.dataset_name, protocol_name)
    real, required = ImageSet.load(reference), protocol.required(experiment.dataset_name)
    metrics = {}
    for variant in experiment.variants:
        samples = folder / f"{variant}.npy"
        if not samples.exists():
            raise UserError(f"{samples} is missing; make it with `rtm sample {experiment.name} --seed {seed}`.")
        seen = see(np.load(samples, mmap_mode="r"), protocol, layout)
        metrics[variant] = measure(seen, real, protocol, required).metrics
    written: dict[str, Any] = {
        "experiment": experiment.name,
        "protocol": protocol_name,
        "seed": seed,
        "samples": required,
        "metrics": metrics,
        "provenance": {
            "checkpoint_sha256": digest(layout.checkpoint(experiment.name, seed)),
            "reference_sha256": digest(reference),
            "extractors": real.extractors,
            "versions": loaded_versions(__name__),
        },
    }
    write_json(layout.metrics(experiment.name, protocol_name, seed), written)
