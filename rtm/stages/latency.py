"""Costs of an image."""

from collections.abc import Iterable
from typing import Any

from rtm.config.experiments import Resources
from rtm.stages.base import Job, Recording, Stage, Values
from rtm.stages.train import Train
from rtm.stages.values import architecture, depths, generator_code, measuring


class Latency(Stage):
    """Time the generator and count its parameters (App. G)."""

    files = {"cost": "results/{experiment}/latency.json"}
    reads = {"train": "checkpoint"}
    local = False
    alone = True

    def needs(self, job: Job) -> Iterable[Job]:
        experiment = job.experiment
        return [Train().job(job.config, experiment=experiment.name, seed=experiment.seeds[0])]

    def values(self, job: Job) -> Values:
        experiment = job.experiment
        evaluation = experiment.recipe.evaluation
        return architecture(experiment) | {
            "batch": evaluation.latency_batch,
            "passes": [evaluation.latency_warmup, evaluation.latency_passes],
            "variants": depths(experiment),
        }

    def code(self, job: Job) -> tuple[str, ...]:
        return ("rtm.metrics.latency", *generator_code(job.experiment))

    def cost(self, job: Job) -> Resources:
        return measuring(job.experiment)

    def make(self, job: Job, recording: Recording, **options: Any) -> None:
        from rtm.core.files import write_json
        from rtm.metrics.latency import measure_latency

        checkpoint = job.input(Train).outputs["checkpoint"]
        write_json(job.outputs["cost"], measure_latency(job.experiment, checkpoint))
