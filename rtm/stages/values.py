"""Values, code and costs that several stages share."""

from typing import Any

from rtm.config import Config, Experiment
from rtm.config.classes import is_own, source_digest
from rtm.config.experiments import Resources
from rtm.metrics.extractors import EXTRACTORS
from rtm.models.registry import generator_builder, mapper_class

Values = dict[str, Any]


def architecture(experiment: Experiment) -> Values:
    """The values that a generator is built from and computes with."""
    decoder = experiment.decoder
    gan = experiment.recipe.stylegan2
    return {
        "dim": experiment.recipe.dim,
        "mapper": experiment.mapper.model_dump(mode="json") | source(mapper_class(experiment.mapper.kind)),
        "decoder": decoder and decoder.model_dump(mode="json") | source(getattr(decoder, "kind", "")),
        "stylegan2": gan and gan.model_dump(mode="json"),
        "tf32": experiment.recipe.training.tf32,
    }


def depths(experiment: Experiment) -> Values:
    """The options with which each variant is drawn."""
    return {name: depth.options() | {"shuffled": depth.shuffled} for name, depth in experiment.depths.items()}


def protocol(config: Config, name: str, dataset: str) -> Values:
    """The values of a protocol for a dataset, without those of its reference."""
    chosen = config.params.protocols[name]
    read = chosen.model_dump(mode="json", exclude={"title", "reference", "pr_reference"})
    return read | {"samples": chosen.required(dataset)}


def source(name: str) -> dict[str, str]:
    """The hash of a user's class: it is outside of the package, so the hash of the package's code does not count it."""
    is_outside = is_own(name) and not name.startswith("rtm.")
    return {"source": source_digest(name)} if is_outside else {}


def generator_code(experiment: Experiment) -> tuple[str, ...]:
    """The modules that build and draw with a generator."""
    names = ("rtm.models.drawing", generator_builder(experiment.architecture), mapper_class(experiment.mapper.kind))
    return tuple(name for name in names if name.startswith("rtm."))


def extractor_code(config: Config, protocol: str) -> tuple[str, ...]:
    """The modules of a protocol's networks."""
    chosen = config.params.protocols[protocol]
    names = dict.fromkeys((chosen.extractor, chosen.pr_extractor))
    return tuple(EXTRACTORS[name] for name in names if name in EXTRACTORS)


def measuring(experiment: Experiment) -> Resources:
    """The cost of a measurement: one GPU's share of the training's resources, and hours instead of weeks."""
    whole = experiment.recipe.resources
    share = max(1, whole.gpus)
    return Resources(
        gpus=min(1, whole.gpus),
        gpu_model=whole.gpu_model,
        cpus=max(1, whole.cpus // share),
        mem_gb=max(2, whole.mem_gb // share),
        hours=min(8.0, whole.hours),
    )
