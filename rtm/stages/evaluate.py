"""Metrics."""

from collections.abc import Iterable
from typing import Any

from rtm.config.experiments import Resources
from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.network import networks_of, weights_of
from rtm.stages.reference import Reference
from rtm.stages.train import Train
from rtm.stages.values import architecture, depths, extractor_code, generator_code, measuring, protocol


class Evaluate(Stage):
    """Measure a checkpoint by a protocol: draw images, at every depth of the sweep, and compare them with real ones."""

    parts = ("experiment", "protocol", "seed")
    files = {"metrics": "results/{experiment}/{protocol}/seed{seed}.json"}
    reads = {"train": "checkpoint", "reference": "features", "network": "weights"}
    local = False

    def needs(self, job: Job) -> Iterable[Job]:
        experiment = job.experiment
        name = job.names["protocol"]
        yield Train().job(job.config, experiment=experiment.name, seed=job.seed)
        yield Reference().job(job.config, dataset=experiment.dataset_name, protocol=name)
        yield from networks_of(job.config, name)

    def values(self, job: Job) -> Values:
        experiment = job.experiment
        drawn = experiment.recipe.evaluation.samples
        own = {"seed": job.seed, "drawn": drawn, "variants": depths(experiment)}
        measured = protocol(job.config, job.names["protocol"], experiment.dataset_name)
        return architecture(experiment) | measured | own

    def code(self, job: Job) -> tuple[str, ...]:
        networks = extractor_code(job.config, job.names["protocol"])
        return ("rtm.metrics.evaluate", *networks, *generator_code(job.experiment))

    def cost(self, job: Job) -> Resources:
        return measuring(job.experiment)

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.core.files import write_json
        from rtm.metrics.evaluate import checkpoint_metrics

        name = job.names["protocol"]
        chosen = job.config.params.protocols[name]
        checkpoint = job.input(Train).outputs["checkpoint"]
        reference = job.input(Reference).outputs["features"]
        kept = job.config.kept_features
        described = checkpoint_metrics(
            job.experiment, job.seed, name, chosen, checkpoint, reference, weights_of(job), kept
        )
        write_json(job.outputs["metrics"], described)
