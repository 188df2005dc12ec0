"""The metrics of a checkpoint: draw its images, extract their features, measure them under a protocol."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rtm.config import Experiment
from rtm.config.experiments import Protocol, Recursive, Watching
from rtm.core.devices import best_device
from rtm.core.errors import UserError
from rtm.core.files import digest
from rtm.data.datasets import Images
from rtm.metrics.extractors import extractor_of
from rtm.metrics.features import extract
from rtm.metrics.fid import Statistics, frechet_distance
from rtm.metrics.image_set import ImageSet
from rtm.metrics.images import Pictures
from rtm.metrics.measure import measure
from rtm.metrics.networks import BATCH, Networks, Weights
from rtm.metrics.prdc import prdc
from rtm.metrics.refinement import Refinement, hardness
from rtm.metrics.sampling import Samples
from rtm.models.checkpoint import load_generator

FEW = 10_000  # most samples whose features are kept (80 MB with Inception), because variants and protocols share images


def checkpoint_metrics(
    experiment: Experiment,
    seed: int,  # of the training
    protocol_name: str,
    protocol: Protocol,
    checkpoint: Path,
    reference: Path,  # features of the real images
    weights: Weights,
    kept: Path,  # folder of the features that later calls need not extract again
) -> dict[str, Any]:
    """The metrics of every variant of an experiment, with a record of all inputs."""
    required = protocol.required(experiment.dataset_name)
    if required > experiment.recipe.evaluation.samples:
        raise UserError(
            f"The protocol asks for {required} samples and there are {experiment.recipe.evaluation.samples}; generate "
            "more (evaluation.samples in params/recipes.yaml)."
        )
    real = ImageSet.load(reference)
    networks = Networks(protocol, weights, kept if required <= FEW else None)
    networks.refuse_others(real)
    generator = load_generator(experiment.architecture, checkpoint, best_device())
    metrics: dict[str, dict[str, float]] = {}
    intervals = {}
    features = {}
    steps = {}
    for variant in experiment.variants:
        samples = Samples(generator, experiment, seed, variant, required, kept.parent)
        fake = networks.image_set(samples, required, protocol.pr_samples)
        measurement = measure(fake, real, protocol)
        metrics[variant] = measurement.metrics
        intervals[variant] = measurement.intervals
        features[variant] = fake.quality
        steps[variant] = samples.steps
    result = {
        "experiment": experiment.name,
        "protocol": protocol_name,
        "seed": seed,
        "samples": required,
        "floor": measurement.floor,
        "metrics": metrics,
        "intervals": intervals,
        "provenance": {
            "checkpoint_sha256": digest(checkpoint),
            "reference_sha256": digest(reference),
            "extractors": real.extractors,
        },
    }
    if missing := networks.missing(fake):
        result["missing"] = missing
    if isinstance(experiment.mapper, Recursive):
        look = partial(networks.features, protocol.extractor)
        refinement = Refinement(generator, experiment, seed)
        for variant, of_variant in features.items():
            measured = refinement.metrics(steps[variant], of_variant, look)
            counts = steps[variant].cpu().numpy()
            measured["hardness"] = hardness(counts, of_variant.features, real.quality.features)
            metrics[variant] |= {name: round(value, 9) for name, value in measured.items()}
        result["refinement"] = refinement.curves()
    return result


def reference_of(images: Path, protocol: Protocol, weights: Weights, kept: Path) -> ImageSet:
    """The features of a dataset under a protocol; generated images are compared with them."""
    return Networks(protocol, weights, kept).reference(Images(images).pixels)


def fid_of(images: Pictures, reference: Path, protocol: Protocol, weights: Weights) -> float:
    """Only FID, which selects the checkpoint during training."""
    extractor = extractor_of(protocol.extractor, weights[protocol.extractor], protocol.resize)
    fake = extract(images, extractor, BATCH, best_device())
    return frechet_distance(ImageSet.load(reference).statistics, fake.features)


def curve_metrics(real: Pictures, watching: Watching, weights: Weights) -> Callable[[Pictures], dict[str, float]]:
    """A function for FID, precision and recall of few images against equally many real images: only for curves."""
    resize = "none" if watching.extractor == "digit_classifier" else "tf1"
    extractor = extractor_of(watching.extractor, weights[watching.extractor], resize)
    reference = extract(real, extractor, BATCH, best_device())
    statistics = Statistics.of(reference.features)

    def metrics_of(images: Pictures) -> dict[str, float]:
        features = extract(images, extractor, BATCH, best_device()).features
        shares = prdc(reference.features, features, watching.k, strict=True)
        metrics = {
            "fid": frechet_distance(statistics, features),
            "precision": shares["precision"],
            "recall": shares["recall"],
        }
        return {name: round(value, 6) for name, value in metrics.items()}

    return metrics_of
